"""The agent's health, for gRPC: an agent that its server refuses for good records on, but is not healthy."""

import asyncio
from typing import Any

from grpc_health.v1 import health, health_pb2

from scope_agentd.identity.membership import Membership


class Health:
    """Tells whether the agent is of use.

    Args:
        names: of services that have its health.

    Attributes:
        servicer: of grpc.health.v1.Health.
    """

    def __init__(self, membership: Membership, names: tuple[str, ...]) -> None:
        self._membership, self._names = membership, names
        self.servicer: Any = health.aio.HealthServicer()  # type: ignore[attr-defined]  # missing in the stubs

    async def tell(self) -> None:
        """Tells it once, and whoever watches."""
        statuses = health_pb2.HealthCheckResponse
        now = statuses.NOT_SERVING if self._membership.fleet.needs_token else statuses.SERVING
        for name in self._names:
            await self.servicer.set(name, now)

    async def watch(self) -> None:
        """Tells every change, until cancelled."""
        while True:
            await self._membership.judged.wait()
            self._membership.judged.clear()
            await self.tell()
            await asyncio.sleep(0)
