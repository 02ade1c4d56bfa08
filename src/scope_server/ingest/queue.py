"""Batches between the event loop, which receives them, and the threads, which write them. Bounded by bytes."""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from scope_proto.scope.v1.batch_pb2 import Batch
from scope_server.store.delivery import Outcome

GROUP_EVENTS = 65_536  # at most so many are written in one transaction, unless a single batch has more
_GROUP_BATCHES = 256


@dataclass(eq=False)
class Pending:
    """A batch that waits for its outcome; without a batch, a question whether writing works."""

    batch: Batch | None
    machine: int
    task_id: str
    size: int
    outcome: asyncio.Future[Outcome] = field(repr=False)


class BatchQueue:
    """Made in the event loop. What was taken and not answered yet still counts as held.

    Args:
        limit: bytes held before `put` waits.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._changed = threading.Condition()
        self._waiting: deque[Pending] = deque()
        self._closed = False

    @property
    def held_bytes(self) -> int:
        """Bytes of batches that were not answered yet."""
        return self._held

    async def put(self, batch: Batch, machine: int, task_id: str) -> asyncio.Future[Outcome]:
        """Queues a batch, once there is room, and returns its outcome to be."""
        while self._held >= self._limit:
            self._room.clear()
            await self._room.wait()
        pending = Pending(batch, machine, task_id, batch.ByteSize(), self._loop.create_future())
        self._held += pending.size
        with self._changed:
            self._waiting.append(pending)
            self._changed.notify()
        return pending.outcome

    def ask(self) -> asyncio.Future[Outcome]:
        """Has the next free writer check that it can write."""
        pending = Pending(None, 0, "", 0, self._loop.create_future())
        with self._changed:
            self._waiting.appendleft(pending)
            self._changed.notify()
        return pending.outcome

    def take(self) -> list[Pending]:
        """For threads: what waits, at most a group; waits for the first. Empty: the queue is closed and drained."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            group: list[Pending] = []
            events = 0
            while self._waiting and len(group) < _GROUP_BATCHES:
                following = self._waiting[0].batch
                events += following.event_count if following else 0
                if group and events > GROUP_EVENTS:
                    break
                group.append(self._waiting.popleft())
            return group

    def answer(self, group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        """For threads: how each of a group ended."""
        self._loop.call_soon_threadsafe(self._settle, group, outcomes)

    def close(self) -> None:
        """Lets the threads end once they wrote what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Pending]:
        """Takes away what still waits."""
        with self._changed:
            left = list(self._waiting)
            self._waiting.clear()
        return left

    def _settle(self, group: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        for pending, outcome in zip(group, outcomes, strict=True):
            self._held -= pending.size
            if not pending.outcome.done():
                pending.outcome.set_result(outcome)
        if self._held < self._limit:
            self._room.set()
