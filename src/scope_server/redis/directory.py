"""The directory of a fleet: each server's sessions are a set in Redis that expires if the server does not renew it."""

import asyncio
import contextlib
from typing import Any

from redis.asyncio import Redis

from scope_server.errors import RedisAway
from scope_server.redis import keys
from scope_server.redis.link import Link
from scope_server.session.directory import LocalDirectory
from scope_server.signals import Signals

LEASE_S = 15
_RENEW_S = 3.0
_NOBODY = ""  # a member of each set, so that a server without sessions has one


class RedisDirectory(LocalDirectory):
    """What this server holds is known in memory, and made known by `run`. While Redis is away, no others are known."""

    def __init__(self, server: str, signals: Signals, link: Link) -> None:
        super().__init__(server, signals)
        self._link = link
        self._known: frozenset[str] = frozenset()  # to Redis
        self._changed = asyncio.Event()

    def hold(self, machine_id: str) -> None:
        """See Directory."""
        super().hold(machine_id)
        self._changed.set()

    def release(self, machine_id: str) -> None:
        """See Directory."""
        super().release(machine_id)
        self._changed.set()

    async def holder(self, machine_id: str) -> str | None:
        """See Directory."""
        if own := await super().holder(machine_id):
            return own
        try:
            return await self._link.ask(lambda client: self._holder(client, machine_id))
        except RedisAway:
            return None

    async def connected(self) -> frozenset[str]:
        """See Directory."""
        try:
            return await super().connected() | await self._link.ask(self._connected)
        except RedisAway:
            return await super().connected()

    async def run(self) -> None:
        """Makes known what this server holds, until cancelled; then, that it holds nothing."""
        try:
            while True:
                self._changed.clear()
                with contextlib.suppress(RedisAway):
                    before = self._known
                    await self._link.ask(self._make_known)
                    if before != self._known:  # who was told before could not see it yet
                        for machine_id in before ^ self._known:
                            self.tell(machine_id)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RENEW_S):
                        await self._changed.wait()
        finally:
            with contextlib.suppress(RedisAway):
                await self._link.ask(lambda client: client.delete(keys.sessions(self._server)))

    async def _make_known(self, client: Redis) -> None:
        own, held = keys.sessions(self._server), frozenset(self._held)
        async with client.pipeline(transaction=False) as commands:
            commands.sadd(keys.SERVERS, self._server)
            commands.expire(own, LEASE_S)
            _, there = await commands.execute()
        known = self._known if there else frozenset()
        async with client.pipeline(transaction=True) as commands:
            commands.sadd(own, _NOBODY, *(held - known))
            if gone := known - held:
                commands.srem(own, *gone)
            commands.expire(own, LEASE_S)
            await commands.execute()
        self._known = held
        if dead := [name for name, lives in await self._others(client, "exists") if not lives]:
            await client.srem(keys.SERVERS, *dead)

    async def _others(self, client: Redis, ask: str, *given: str) -> list[tuple[str, Any]]:
        """What a command answers for the set of each other server; this server's is known better here."""
        servers: Any = await client.smembers(keys.SERVERS)
        names = [name.decode() for name in servers if name.decode() != self._server]
        async with client.pipeline(transaction=False) as commands:
            for name in names:
                getattr(commands, ask)(keys.sessions(name), *given)
            return list(zip(names, await commands.execute(), strict=True))

    async def _holder(self, client: Redis, machine_id: str) -> str | None:
        return next((name for name, holds in await self._others(client, "sismember", machine_id) if holds), None)

    async def _connected(self, client: Redis) -> frozenset[str]:
        return frozenset(one.decode() for _, held in await self._others(client, "smembers") for one in held) - {_NOBODY}
