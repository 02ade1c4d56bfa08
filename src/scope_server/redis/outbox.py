"""Of a receiver: sends the records of its backlog to Redis, and answers them when a writer has told their outcome.

A record is kept until it is answered. If its entry is gone from Redis without an answer, because Redis has lost data,
it is sent again; a writer that had stored it stores nothing.
"""

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis.asyncio import Redis

from scope_server.errors import RedisAway
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.pending import Pending
from scope_server.redis import keys, scripts
from scope_server.redis.clients import BLOCK_MS
from scope_server.redis.entry import fields_of, outcome_of, partition_of
from scope_server.redis.link import Link

_REST_S = 1.0
_FULL_S = 0.05  # until it is tried again whether there is room
_AGAIN_S = 0.5
_LOOK_S = 2.0  # between two looks for entries that are gone
_SLOW_S = 30.0
_AT_ONCE = 500
_BYTES_AT_ONCE = 1 << 20  # Redis does nothing else meanwhile
_log = logging.getLogger(__name__)


@dataclass
class _Sent:
    # A record without an answer; `entry` is its place in Redis, `missed` the place where it was not found.
    pending: Pending
    partition: int
    entry: bytes = b""
    missed: bytes = b""


class Outbox:
    """What a receiver has instead of writers.

    Args:
        server: the receiver's name.
        most_bytes: of the records of all receivers in Redis; beyond, this one waits.
    """

    def __init__(self, server: str, link: Link, backlog: Backlog, most_bytes: int) -> None:
        self._server, self._link, self._backlog, self._most_bytes = server, link, backlog, most_bytes
        self._numbers = itertools.count(1)
        self._sent: dict[int, _Sent] = {}
        self._full_since: float | None = None

    def check(self) -> str:
        """What is wrong; an empty text if nothing is."""
        held = f"{self._backlog.held_bytes} bytes wait"
        if self._link.away:
            return f"Redis is away: {self._link.away}; {held}"
        if self._full_since and (full_s := time.monotonic() - self._full_since) > _AGAIN_S:
            return f"Redis is full since {full_s:.0f} s: writers do not keep up; {held}"
        if (oldest_s := self._backlog.oldest_s) > _SLOW_S:
            return f"no writer has stored a record since {oldest_s:.0f} s: see the servers with the role write; {held}"
        return ""

    async def run(self) -> None:
        """Sends and answers, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            group.create_task(self._listen())
            group.create_task(self._look())

    async def _send(self) -> None:
        while True:
            numbers = []
            for pending in await asyncio.to_thread(self._backlog.take, 0, _REST_S) or ():
                numbers.append(next(self._numbers))
                self._sent[numbers[-1]] = _Sent(pending, partition_of(pending))
            await self._put(numbers)

    async def _put(self, numbers: Sequence[int]) -> None:
        """Sends records, in this order, until all are in Redis. Answers may come first: of an attempt that seemed to
        have failed."""
        while left := [number for number in numbers if number in self._sent]:
            sizes = itertools.accumulate(self._sent[number].pending.record.ByteSize() for number in left)
            few = left[: max(1, sum(size <= _BYTES_AT_ONCE for size in sizes))]
            added = await self._add(few)
            numbers = left[added:]
            if added < len(few):
                await asyncio.sleep(_FULL_S)

    async def _add(self, numbers: Sequence[int]) -> int:
        """Sends records; returns how many of them, from the first on, are in Redis."""
        sent = [self._sent[number] for number in numbers]
        entries = [
            (one.partition, fields_of(one.pending, self._server, number))
            for number, one in zip(numbers, sent, strict=True)
        ]
        try:
            added = await self._link.ask(lambda client: scripts.add(client, entries, self._most_bytes))
        except RedisAway:
            await asyncio.sleep(_AGAIN_S)
            return 0
        for one, entry in zip(sent, added, strict=False):
            one.entry = entry
        self._full_since = None if len(added) == len(sent) else self._full_since or time.monotonic()
        return len(added)

    async def _listen(self) -> None:
        while True:
            try:
                await self._link.ask(self._answer)
            except RedisAway:
                await asyncio.sleep(_AGAIN_S)

    async def _answer(self, client: Redis) -> None:
        own = keys.answers(self._server)
        # From the beginning, since a Redis that took over from another may give lower ids than that one.
        found: Any = await client.xread({own: "0-0"}, _AT_ONCE, BLOCK_MS)
        for _, answers in found or ():
            for _, answer in answers:
                if sent := self._sent.pop(int(answer[b"number"]), None):
                    self._backlog.settle(0, [sent.pending], [outcome_of(answer[b"outcome"])])
            await client.xdel(own, *(one for one, _ in answers))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            by_partition: defaultdict[int, dict[bytes, int]] = defaultdict(dict)
            for number, sent in self._sent.items():
                if sent.entry:
                    by_partition[sent.partition][sent.entry] = number
            try:
                lost = [one for few in by_partition.items() for one in await self._lost(*few)]
            except RedisAway:
                continue
            if lost:
                _log.warning("Redis has lost records; they are sent again", extra={"records": len(lost)})
            await self._put(sorted(lost))

    async def _lost(self, partition: int, entries: dict[bytes, int]) -> list[int]:
        """The records whose entries were gone at the last look, too: their answers would have come since then."""
        gone: set[bytes] = set()
        ids = list(entries)
        for first in range(0, len(ids), _AT_ONCE):
            few = ids[first : first + _AT_ONCE]
            gone |= await self._link.ask(partial(scripts.lacking, partition=partition, ids=few))
        lost = []
        for entry in gone:
            if sent := self._sent.get(entries[entry]):
                if sent.missed == entry:
                    lost.append(entries[entry])
                sent.missed = entry
        return lost
