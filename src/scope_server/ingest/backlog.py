"""The queue of records between the event loop, which receives them, and the threads that write them.

Bounded by the decompressed size, and for each machine by its share. A run's records stay in one lane, in order; each
lane has one writer.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Sequence

from scope_server.ingest.counts import Counts
from scope_server.ingest.pending import Pending
from scope_server.ingest.turns import Turns
from scope_server.store.writing.delivery import Outcome, Verdict

SHARE = 4  # a machine may hold 1/SHARE of the limit; with the default limit, that is one record of the largest size


class Backlog:
    """The backlog. Create it in the event loop. Records that were taken but not settled still count as held.

    Args:
        limit: bytes held before `put` waits.
        lanes: number of lanes.

    Attributes:
        counts: counters of stored, refused, deferred and redated records.
        limit: bytes held before `put` waits.
    """

    def __init__(self, limit: int, lanes: int) -> None:
        self.counts = Counts()
        self.limit = limit
        self._held: Counter[int] = Counter()  # bytes, by machine
        self._held_bytes = 0
        self._arrivals: dict[Pending, float] = {}  # of all unsettled records, in order; by time.monotonic
        self._outside: dict[Pending, asyncio.Future[None]] = {}  # records that wait for space
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._lanes = [Turns() for _ in range(lanes)]
        self._closed = False

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self._lanes)

    @property
    def held_bytes(self) -> int:
        """Decompressed size in bytes of all unsettled records."""
        return self._held_bytes

    @property
    def oldest_s(self) -> float:
        """How long the oldest unsettled record has waited, in s; 0 if there is none."""
        oldest = next(iter(self._arrivals.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest

    def holds(self, machine: int) -> bool:
        """Whether a machine (by key) has unsettled records."""
        return self._held[machine] > 0

    async def put(self, pending: Pending) -> None:
        """Adds a record; waits for space. The machine that holds least comes first."""
        inside = self._loop.create_future()
        self._arrivals[pending] = time.monotonic()
        self._outside[pending] = inside
        self._let_in()
        try:
            await inside
        finally:
            if self._outside.pop(pending, None):  # cancelled
                del self._arrivals[pending]
                self._let_in()

    def take(self, lane: int, within_s: float | None = None) -> list[Pending] | None:
        """For threads: takes the next group of a lane; waits for a record. Empty: closed and drained.

        Args:
            within_s: how long it waits at most, in s; then it returns None.
        """
        turns = self._lanes[lane]
        with self._changed:
            if not self._changed.wait_for(lambda: turns or self._closed, within_s):
                return None
            return turns.take()

    def rest(self, seconds: float) -> None:
        """For threads: waits while more records may arrive, until it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def put_back(self, lane: int, group: Sequence[Pending]) -> None:
        """For threads: takes back a group that failed, to give its parts."""
        with self._changed:
            self._lanes[lane].put_back(group)

    def settle(self, lane: int, group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        """For threads: reports the outcome of each record in a group."""
        for pending, outcome in zip(group, outcomes, strict=True):
            if outcome.verdict is Verdict.STORED:
                self.counts.store(pending.events)
            elif outcome.verdict is Verdict.REFUSED:
                self.counts.refuse(outcome.code)
            elif outcome.verdict is Verdict.LATER:
                self.counts.defer(outcome.code)
        if all(outcome.verdict is Verdict.STORED for outcome in outcomes):
            with self._changed:
                self._lanes[lane].stored(group)
        with contextlib.suppress(RuntimeError):  # the loop is closed: no agent waits for an answer
            self._loop.call_soon_threadsafe(self._settle, group, outcomes)

    def close(self) -> None:
        """Makes the threads end after writing the waiting records."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Pending]:
        """Removes and returns all waiting records."""
        with self._changed:
            return [pending for turns in self._lanes for pending in turns.abandon()]

    def _let_in(self) -> None:
        for pending in sorted(self._outside, key=lambda one: self._held[one.machine.key]):
            held = self._held[pending.machine.key]
            if self._outside[pending].done() or (held and held + pending.weight > self.limit // SHARE):
                continue  # cancelled, or beyond its share
            if self._held_bytes and self._held_bytes + pending.weight > self.limit:
                return  # it comes next, however small the records behind it are
            self._outside.pop(pending).set_result(None)
            self._held[pending.machine.key] += pending.weight
            self._held_bytes += pending.weight
            with self._changed:
                self._lanes[hash(pending.record.run_id) % len(self._lanes)].put(pending)
                self._changed.notify_all()

    def _settle(self, group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        for pending, outcome in zip(group, outcomes, strict=True):
            machine = pending.machine.key
            self._held_bytes -= pending.weight
            self._held[machine] -= pending.weight
            if not self._held[machine]:
                del self._held[machine]
            del self._arrivals[pending]
            pending.answer(outcome)
        self._let_in()
