"""Signals between servers: a short Redis stream that every server reads.

A server hears its own signals at once, without Redis. Whatever may have been missed, while Redis was away or had lost
its data, is told as "any may have changed".
"""

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

from redis.asyncio import Redis

from scope_server.errors import RedisAway
from scope_server.redis import keys
from scope_server.redis.clients import BLOCK_MS
from scope_server.redis.link import Link
from scope_server.signals import LocalSignals, Topic

_KEPT = 10_000  # signals
_MOST_NAMES = 1000  # in a signal; of more, none is named
_AGAIN_S = 0.5
_READ_AT_ONCE = 1000
_TOPICS = {topic.value: topic for topic in Topic}


class RedisSignals(LocalSignals):
    """The signals of a fleet. `run` carries them."""

    def __init__(self, server: str, link: Link) -> None:
        super().__init__()
        self._server, self._link = server, link
        self._untold: dict[Topic, set[str]] = {}
        self._some = asyncio.Event()

    def hear(self, topic: Topic, names: Collection[str]) -> None:
        """Hears a signal of this server, and keeps it for the others."""
        super().hear(topic, names)
        self._keep(topic, names)

    async def run(self) -> None:
        """Tells and hears, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell())
            group.create_task(self._listen())

    async def _tell(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            untold, self._untold = self._untold, {}
            try:
                await self._link.ask(lambda client: self._add(client, untold))  # noqa: B023  # awaited here
            except RedisAway:
                for topic, names in untold.items():
                    self._keep(topic, names)
                await asyncio.sleep(_AGAIN_S)

    def _keep(self, topic: Topic, names: Collection[str]) -> None:
        untold = self._untold.get(topic, set(names)) | set(names)
        unnamed = not names or self._untold.get(topic, names) == set() or len(untold) > _MOST_NAMES
        self._untold[topic] = set() if unnamed else untold
        self._some.set()

    async def _add(self, client: Redis, untold: dict[Topic, set[str]]) -> None:
        for topic, names in untold.items():
            signal: dict[Any, Any] = {"from": self._server, "topic": topic.value, "names": "\n".join(names)}
            await client.xadd(keys.SIGNALS, signal, maxlen=_KEPT, approximate=True)

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(RedisAway):
                last = await self._link.ask(_last)
                for topic in Topic:
                    super().hear(topic, ())
                while True:
                    last = await self._link.ask(lambda client: self._read(client, last))  # noqa: B023  # awaited here
            super().hear(Topic.COMMITTED, ())  # of what other servers commit now, nobody tells
            await asyncio.sleep(_AGAIN_S)

    async def _read(self, client: Redis, last: bytes) -> bytes:
        found: Any = await client.xread({keys.SIGNALS: last}, _READ_AT_ONCE, BLOCK_MS)
        for _, entries in found or ():
            for number, signal in entries:
                last = number
                topic = _TOPICS.get(signal[b"topic"].decode())  # None: only a newer server knows it
                if topic and signal[b"from"].decode() != self._server:
                    super().hear(topic, signal[b"names"].decode().split("\n") if signal[b"names"] else ())
        return last


async def _last(client: Redis) -> bytes:
    newest: Any = await client.xrevrange(keys.SIGNALS, count=1)
    return newest[0][0] if newest else b"0-0"
