"""The queue of records between the event loop, which receives them, and the threads that write them.

Bounded by the decompressed size. A run's records stay in one lane, in order; each lane has one writer.
"""

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected
from scope_server.ingest.counts import Counts
from scope_server.machine import Machine
from scope_server.store.writing.delivery import Outcome, Verdict

GROUP_EVENTS = 65_536  # maximum events per transaction, unless a single record has more
_GROUP_BYTES = 64 << 20
_GROUP_RECORDS = 256


@dataclass(frozen=True, eq=False)
class Pending:
    """A record that waits for its outcome.

    Attributes:
        weight: decompressed size in bytes.
        rejected: why the content must not be read.
        answer: called once, in the event loop.
    """

    record: Record
    machine: Machine
    weight: int
    answer: Callable[[Outcome], None]
    rejected: Rejected | None = None

    @property
    def events(self) -> int:
        """Number of events, as declared by the record."""
        return self.record.batch.event_count if self.record.HasField("batch") else 0


class Backlog:
    """The backlog. Create it in the event loop. Records that were taken but not settled still count as held.

    Args:
        limit: bytes held before `put` waits.
        lanes: number of lanes.

    Attributes:
        counts: counters of refused, deferred and redated records.
    """

    def __init__(self, limit: int, lanes: int) -> None:
        self.counts = Counts()
        self._limit = limit
        self._held = 0
        self._of_machines: Counter[int] = Counter()
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._changed = threading.Condition()
        self._lanes: list[deque[Pending]] = [deque() for _ in range(lanes)]
        self._closed = False

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self._lanes)

    @property
    def held_bytes(self) -> int:
        """Decompressed size in bytes of all unsettled records."""
        return self._held

    def holds(self, machine: int) -> bool:
        """Whether a machine (by key) has unsettled records."""
        return self._of_machines[machine] > 0

    async def put(self, pending: Pending) -> None:
        """Adds a record; waits for space, in order of the calls."""
        async with self._turn:
            while self._held and self._held + pending.weight > self._limit:
                self._room.clear()
                await self._room.wait()
            self._held += pending.weight
            self._of_machines[pending.machine.key] += 1
            with self._changed:
                self._lanes[hash(pending.record.run_id) % len(self._lanes)].append(pending)
                self._changed.notify_all()

    def take(self, lane: int) -> list[Pending]:
        """For threads: takes the next group of a lane; waits for a record. Empty: closed and drained."""
        waiting = self._lanes[lane]
        with self._changed:
            while not waiting and not self._closed:
                self._changed.wait()
            group: list[Pending] = []
            events = weight = 0
            while waiting and len(group) < _GROUP_RECORDS:
                events, weight = events + waiting[0].events, weight + waiting[0].weight
                if group and (events > GROUP_EVENTS or weight > _GROUP_BYTES):
                    break
                group.append(waiting.popleft())
            return group

    def settle(self, group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        """For threads: reports the outcome of each record in a group."""
        for outcome in outcomes:
            if outcome.verdict is Verdict.REFUSED:
                self.counts.refuse(outcome.code)
            elif outcome.verdict is Verdict.LATER:
                self.counts.defer(outcome.code)
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
            left = [pending for lane in self._lanes for pending in lane]
            for lane in self._lanes:
                lane.clear()
        return left

    def _settle(self, group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        for pending, outcome in zip(group, outcomes, strict=True):
            self._held -= pending.weight
            self._of_machines[pending.machine.key] -= 1
            pending.answer(outcome)
        self._of_machines = +self._of_machines  # drops machines with no records
        self._room.set()
