"""The agent's connection to a server that refuses its sessions."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agentd.driving import until
from tests.integration.agentd.stand_in_server import StandInServer

from scope_agentd.session import link

_ESTABLISHED = "01"  # include/net/tcp_states.h


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """What only the garbage collector lets go of stays."""
    gc.disable()
    yield
    gc.enable()


def connections_to(port: int) -> int:
    """How many connections a local port has accepted and not closed."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return sum(line[1].endswith(f":{port:04X}") and line[3] == _ESTABLISHED for line in lines)


@pytest.mark.usefixtures("_no_collector")
async def test_refused_sessions_leave_no_connections(
    server: StandInServer, start_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refused session closes its connection, whether or not the garbage collector runs."""
    monkeypatch.setattr(link, "LAST_PAUSE_S", 0.05)
    server.refuses = "the database is away"
    async with start_agent():
        await until(lambda: server.refused > 20)
        server.refuses = ""
        await until(lambda: server.hellos)
        await until(lambda: connections_to(server.port) == 1)


@pytest.mark.usefixtures("_no_collector")
async def test_broken_sessions_leave_no_connections(
    server: StandInServer, start_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do sessions that break while both streams run."""
    monkeypatch.setattr(link, "LAST_PAUSE_S", 0.05)
    async with start_agent():
        for begun in range(1, 6):
            await until(lambda begun=begun: server.uploads == begun)
            server.break_sessions()
        await until(lambda: server.uploads == 6)
        await until(lambda: connections_to(server.port) == 1)
