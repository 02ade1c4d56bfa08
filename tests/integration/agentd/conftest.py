"""An agent in this process, and a stand-in for its server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.fleet import UNEXAMINED_S, make_member, of_person, to_agent
from tests.integration.agentd.stand_in_server import StandInServer
from tests.ports import free_port

from scope_agentd.app import serve
from scope_agentd.settings import Settings
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub
from scope_server.identity.authority import Authority


class Agent:
    """A running agent: its settings, a stub of AgentControl and its control address."""

    def __init__(self, settings: Settings, channel: grpc.aio.Channel, address: str) -> None:
        self.settings, self.control, self.address = settings, control_of(channel), address


def control_of(channel: grpc.aio.Channel) -> Any:
    """A stub of AgentControl, typed Any: the generated types are for blocking calls, these calls are asynchronous."""
    return AgentControlStub(channel)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[StandInServer]:
    stand_in = StandInServer(Authority(tmp_path / "authority"))
    await stand_in.start()
    yield stand_in
    await stand_in.stop()


@pytest.fixture
def port() -> int:
    """A port that nobody listens on."""
    return free_port()


@pytest.fixture
def start_agent(tmp_path: Path, server: StandInServer) -> Callable[..., Any]:
    """Runs an agent for a `async with` block: `async with start_agent(spool_bytes=...) as agent`."""

    @asynccontextmanager
    async def start(**changes: Any) -> AsyncIterator[Agent]:
        addresses = {"control": "127.0.0.1:0", "metrics": "127.0.0.1:0"}
        settings = Settings(**{"state_dir": tmp_path, "examine_after_s": UNEXAMINED_S, **addresses, **changes})
        with suppress(OSError):  # the agent tells it
            make_member(settings.state_dir, server.authority, f"127.0.0.1:{server.port}")
        stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
        running = asyncio.create_task(serve(settings, stop, address.set_result))
        done, _ = await asyncio.wait([running, address], return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running
        async with to_agent(address.result(), of_person(server.authority)) as channel:
            try:
                yield Agent(settings, channel, address.result())
            finally:
                stop.set()
                await running

    return start
