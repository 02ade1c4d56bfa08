"""Of a writer: takes the records of its partitions from Redis into its backlog, and tells their receivers the outcomes.

A run's records are in one partition, and a partition has one writer at a time: it owns the partition while it renews
its lease. When a writer gets a partition, it takes over what another had taken and not finished. If that one was only
slow, both store it, which stores it once, like whatever comes twice.
"""

import asyncio
import itertools
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from redis import ResponseError
from redis.asyncio import Redis

from scope_server.errors import RedisAway
from scope_server.ingest.backlog import Backlog
from scope_server.redis import keys, scripts
from scope_server.redis.clients import BLOCK_MS
from scope_server.redis.entry import Fields, pending_of, told, waiting
from scope_server.redis.link import Link
from scope_server.store.writing.delivery import Outcome, Verdict

_RENEW_S = 1.0
_AGAIN_S = 0.5
_AT_ONCE = 100  # outcomes
_EACH = 4  # entries of a partition at once; each has at most 1 MiB
_log = logging.getLogger(__name__)

_Taken = tuple[int, bytes]  # partition and id of an entry


class Intake:
    """What brings records to the writers of a server.

    Args:
        server: the writer's name.
        backlog: of the writers' threads.
    """

    def __init__(self, server: str, link: Link, backlog: Backlog) -> None:
        self._server, self._link, self._backlog = server, link, backlog
        self._share = 0
        self._owned: frozenset[int] = frozenset()
        self._claimed: set[int] = set()  # of these, nothing is left that was taken and not finished
        self._taken: set[_Taken] = set()  # in the backlog, or on the way from there
        self._outcomes: dict[_Taken, tuple[str, int, Outcome]] = {}
        self._some = asyncio.Event()

    @property
    def _kept(self) -> frozenset[int]:
        """The partitions that are read: those beyond the share are given up as soon as their records are finished."""
        return frozenset(sorted(self._owned)[: self._share])

    async def run(self) -> None:
        """Brings records and tells outcomes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in (self._renew, self._read, self._finish):
                group.create_task(_again(work))

    async def close(self) -> None:
        """Tells the last outcomes, and gives up all partitions. Call it when the writers have ended."""
        try:
            await self._tell()
            await self._link.ask(lambda client: scripts.give_up(client, self._server, sorted(self._owned)))
        except RedisAway as error:
            _log.info("other writers take over when this one's lease ends", extra={"reason": str(error)})

    async def _renew(self) -> None:
        self._share, owned = await self._link.ask(lambda client: scripts.share(client, self._server))
        self._claimed &= owned
        self._owned = owned
        busy = {partition for partition, _ in self._taken}
        if spare := sorted(owned - self._kept - busy):
            await self._link.ask(lambda client: scripts.give_up(client, self._server, spare))
            self._owned -= set(spare)
        await asyncio.sleep(_RENEW_S)

    async def _read(self) -> None:
        kept = self._kept
        if not kept:
            await asyncio.sleep(_AGAIN_S)
        try:
            for partition in sorted(kept - self._claimed):
                await self._claim(partition)
                self._claimed.add(partition)
            if kept:
                for partition, entry, fields in await self._link.ask(partial(self._new, kept=kept)):
                    await self._take(partition, entry, fields)
        except RedisAway:
            self._claimed.clear()  # an answer that did not arrive may have had entries
            raise

    async def _claim(self, partition: int) -> None:
        """Takes over the entries of a partition that were taken before, whoever took them."""
        cursor = b"0-0"
        while True:
            cursor, entries = await self._link.ask(partial(self._left, partition=partition, cursor=cursor))
            for entry, fields in entries:
                await self._take(partition, entry, fields)
            if cursor == b"0-0":
                return

    async def _left(self, client: Redis, *, partition: int, cursor: bytes) -> tuple[bytes, list[tuple[bytes, Fields]]]:
        stream = keys.records(partition)
        try:
            await client.xgroup_create(stream, scripts.GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        found: Any = await client.xautoclaim(
            stream, scripts.GROUP, self._server, min_idle_time=0, start_id=cursor.decode(), count=_EACH
        )
        return found[0], found[1]

    async def _new(self, client: Redis, *, kept: frozenset[int]) -> list[tuple[int, bytes, Fields]]:
        """Entries that no writer has taken."""
        streams: dict[Any, Any] = {keys.records(partition): ">" for partition in kept}
        by_name = {keys.records(partition).encode(): partition for partition in kept}
        found: Any = await client.xreadgroup(scripts.GROUP, self._server, streams, _EACH, BLOCK_MS)
        return [(by_name[name], entry, fields) for name, entries in found or () for entry, fields in entries]

    async def _take(self, partition: int, entry: bytes, fields: Fields) -> None:
        taken = partition, entry
        if taken in self._taken:
            return
        self._taken.add(taken)
        try:
            receiver, number = waiting(fields)
        except (KeyError, ValueError, TypeError):
            _log.error("Redis has an entry that is no record", extra={"entry": entry.decode()})
            receiver, number = "", 0
        answer = partial(self._settled, taken, receiver, number)
        try:
            pending = pending_of(fields, answer)
        except Exception:  # of whatever another version sends; the agent keeps the record
            _log.exception("a record in Redis cannot be read")
            answer(Outcome(Verdict.LATER, "the writer is of another version than the receiver", "unreadable"))
            return
        await self._backlog.put(pending)

    def _settled(self, taken: _Taken, receiver: str, number: int, outcome: Outcome) -> None:
        self._outcomes[taken] = receiver, number, outcome
        self._some.set()

    async def _finish(self) -> None:
        await self._some.wait()
        self._some.clear()
        try:
            await self._tell()
        except RedisAway:
            self._some.set()
            raise

    async def _tell(self) -> None:
        while some := dict(itertools.islice(self._outcomes.items(), _AT_ONCE)):
            finished = [
                scripts.Finished(partition, entry, receiver, number, told(outcome))
                for (partition, entry), (receiver, number, outcome) in some.items()
            ]
            await self._link.ask(partial(scripts.finish, finished=finished))
            for taken in some:
                del self._outcomes[taken]
                self._taken.discard(taken)


async def _again(work: Any) -> None:
    """Does a step of work again and again, with a pause while Redis is away."""
    while True:
        try:
            step: Coroutine[Any, Any, None] = work()
            await step
        except RedisAway:
            await asyncio.sleep(_AGAIN_S)
