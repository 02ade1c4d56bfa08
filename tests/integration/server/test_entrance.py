"""Agents that come while too many sessions begin are told when to come again, and do so on the same connection."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.server.running import until

from scope_agentd.session import link
from scope_cli.bench_fleet.fleet import Fleet
from scope_server.session import sessions
from scope_server.session.entrance import Entrance
from scope_wire import channel
from scope_wire.endpoint import Endpoint

StartServer = Callable[..., Any]
AGENTS = 13


async def test_all_get_in(start_server: StartServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With room for one session that begins, all agents of a fleet that come at once are served, over one connection
    each, and the server counts how often it sent agents away."""
    entrance = Entrance(most=1, line=1)
    monkeypatch.setattr(sessions, "Entrance", lambda: entrance)
    channels: list[Endpoint] = []

    def open_channel(to: Endpoint, peer: str) -> Any:
        channels.append(to)
        return channel.open_channel(to, peer)

    monkeypatch.setattr(link, "open_channel", open_channel)
    async with start_server() as server:
        fleet = Fleet(AGENTS, tmp_path, server.authority, Endpoint.parse(server.ingest, "ingest"), None)
        async with fleet.running():
            await fleet.all_served(120)
            assert len(channels) == AGENTS
            assert entrance.sent_away > 0
            await until(lambda: server.get("server"), lambda found: found["agents"] == AGENTS)
