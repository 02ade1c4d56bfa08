"""All agents of the fleet, in one event loop."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Self

from scope_agentd.identity.membership import Fleet as Joined
from scope_agentd.identity.membership import Membership, keep
from scope_cli.bench_fleet.agent import Agent
from scope_cli.bench_fleet.rows import Rows
from scope_proto.scope.v1 import control_pb2
from scope_server.identity.authority import Authority
from scope_wire.endpoint import Endpoint
from scope_wire.identity import Identity, Kind
from scope_wire.join_token import digest_of

_LOOK_S = 0.05


class Fleet:
    """So many agents, each with a certificate of its own.

    Args:
        folder: for what they keep of their membership.
        rows: what their tasks record; None: nothing.
    """

    def __init__(self, count: int, folder: Path, authority: Authority, server: Endpoint, rows: Rows | None) -> None:
        self.agents = []
        for number in range(count):
            join(number, folder / str(number), authority, server)
            self.agents.append(agent_of(number, folder / str(number), rows))

    @property
    def served(self) -> int:
        """How many have a session, their wanted tasks, and may upload."""
        return sum(agent.served for agent in self.agents)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Runs them while inside. All connect at once."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(agent.run()) for agent in self.agents]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()

    async def all_served(self, within_s: float) -> float:
        """Waits until all are served; returns how many seconds it took.

        Raises:
            TimeoutError: not in time.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(within_s):
            while self.served < len(self.agents):
                await asyncio.sleep(_LOOK_S)
        return loop.time() - began


def join(number: int, state: Path, authority: Authority, server: Endpoint) -> None:
    """Makes a machine a member, with a certificate in its state directory."""
    state.mkdir(parents=True)
    joined = Joined(digest_of(authority.certificate).hex(), "", (str(server),), ())
    keep(state, authority.issue(Identity(Kind.MACHINE, f"{number:032x}")), joined)


def agent_of(number: int, state: Path, rows: Rows | None) -> Agent:
    """The agent of a member."""
    node = control_pb2.Node(
        machine_id=f"{number:032x}",
        installation_id=str(uuid.UUID(int=number)),
        hostname=f"node-{number}",
        kernel="6.12.0",
        architecture="x86_64",
        cpus=8,
        memory_bytes=32 << 30,
        agent_version=version("scope-observe"),
    )
    return Agent(node, Membership(state), rows)
