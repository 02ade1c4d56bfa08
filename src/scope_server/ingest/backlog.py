"""Records between the event loop, which receives them, and the threads, which write them.

Bounded by what they have when decompressed. A run's records stay in one lane, in order; each lane has one taker.
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

GROUP_EVENTS = 65_536  # at most so many are written in one transaction, unless a single record has more
_GROUP_BYTES = 64 << 20
_GROUP_RECORDS = 256


@dataclass(frozen=True, eq=False)
class Pending:
    """A record that waits for its outcome.

    Attributes:
        weight: bytes, decompressed.
        rejected: why its content must not even be looked at.
        answer: is called in the event loop, once.
    """

    record: Record
    machine: Machine
    weight: int
    answer: Callable[[Outcome], None]
    rejected: Rejected | None = None

    @property
    def events(self) -> int:
        """As announced."""
        return self.record.batch.event_count if self.record.HasField("batch") else 0


class Backlog:
    """Made in the event loop. What was taken and is not settled yet still counts as held.

    Args:
        limit: bytes held before `put` waits.
        lanes: how many takers there are.

    Attributes:
        counts: of all that was not taken as it came.
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
        """How many takers there are."""
        return len(self._lanes)

    @property
    def held_bytes(self) -> int:
        """Bytes of records, decompressed, that are not settled yet."""
        return self._held

    def holds(self, machine: int) -> bool:
        """Whether records of a machine (its key) are not settled yet."""
        return self._of_machines[machine] > 0

    async def put(self, pending: Pending) -> None:
        """Adds a record once there is room, in the order in which records were brought."""
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
        """For threads: what waits in a lane, at most a group; waits for the first. Empty: closed and drained."""
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
        """For threads: how each of a group ended."""
        for outcome in outcomes:
            if outcome.verdict is Verdict.REFUSED:
                self.counts.refuse(outcome.code)
            elif outcome.verdict is Verdict.LATER:
                self.counts.defer(outcome.code)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for an answer
            self._loop.call_soon_threadsafe(self._settle, group, outcomes)

    def close(self) -> None:
        """Lets the threads end once they have written what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Pending]:
        """Takes away what still waits."""
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
        self._of_machines = +self._of_machines  # without those that have none
        self._room.set()
