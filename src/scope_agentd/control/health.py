"""The agent's health, for gRPC and HTTP: an agent that its server refuses for good records on, but is not healthy."""

import asyncio
from typing import Any

from grpc_health.v1 import health, health_pb2

from scope_agentd.identity.membership import Membership


class _Servicer(health.aio.HealthServicer):  # type: ignore[misc,name-defined]  # missing in the stubs
    """With the method that the library's has not: unimplemented, each call of it would be logged as an error."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names

    async def List(self, request: Any, context: Any) -> Any:
        """The health of all services."""
        asked = {name: health_pb2.HealthCheckRequest(service=name) for name in self._names}
        return health_pb2.HealthListResponse(
            statuses={name: await self.Check(each, context) for name, each in asked.items()}
        )


class Health:
    """Tells whether the agent is of use.

    Args:
        names: of services that have its health.

    Attributes:
        servicer: of grpc.health.v1.Health.
    """

    def __init__(self, membership: Membership, names: tuple[str, ...]) -> None:
        self._membership, self._names = membership, names
        self.servicer: Any = _Servicer(names)

    def trouble(self) -> str:
        """Why the agent is not healthy; empty: it is."""
        reason = self._membership.fleet.needs_token
        return f"needs a new token: {reason}" if reason else ""

    async def tell(self) -> None:
        """Tells it once, and whoever watches."""
        statuses = health_pb2.HealthCheckResponse
        now = statuses.NOT_SERVING if self.trouble() else statuses.SERVING
        for name in self._names:
            await self.servicer.set(name, now)

    async def watch(self) -> None:
        """Tells every change, until cancelled."""
        while True:
            await self._membership.judged.wait()
            self._membership.judged.clear()
            await self.tell()
            await asyncio.sleep(0)
