"""The bounded queue between the tasks' threads and the connection to the server."""

import asyncio
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from scope_agentd.pipeline.books import QUEUE, Books
from scope_proto.scope.v1 import batch_pb2

Key = tuple[str, int]  # task, sequence


@dataclass
class Queued:
    """A batch and the books to put its loss down in."""

    batch: batch_pb2.Batch
    books: Books
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.batch.ByteSize()

    @property
    def key(self) -> Key:
        """What an acknowledgement names."""
        return self.batch.task_id, self.batch.sequence


class Queue:
    """Batches that wait, and batches that were sent and wait for their acknowledgement, in bytes bounded together.

    `put` may be called from any thread; the rest belongs to the event loop. When there is no room the oldest waiting
    batch is dropped and its events are booked as lost.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._waiting: deque[Queued] = deque()
        self._sent: OrderedDict[Key, Queued] = OrderedDict()
        self._bytes = self._sent_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._settled = asyncio.Event()
        self.dropped_batches = 0

    def put(self, batch: batch_pb2.Batch, books: Books) -> None:
        """Adds a batch; drops the oldest ones if there is no room."""
        queued = Queued(batch, books)
        with self._lock:
            self._waiting.append(queued)
            self._bytes += queued.size
            while self._bytes > self._limit and len(self._waiting) > 1:
                self._drop(self._waiting.popleft())
        self._loop.call_soon_threadsafe(self._filled.set)

    def _drop(self, queued: Queued) -> None:
        self._bytes -= queued.size
        self.dropped_batches += 1
        if queued.batch.event_count:
            queued.books.lose(queued.batch.stream, QUEUE, "full", queued.batch.event_count)

    async def next_to_send(self) -> batch_pb2.Batch:
        """The oldest waiting batch, as soon as there is one; from now on it counts as sent."""
        while True:
            with self._lock:
                if self._waiting:
                    queued = self._waiting.popleft()
                    self._sent[queued.key] = queued
                    self._sent_bytes += queued.size
                    return queued.batch
                self._filled.clear()
            await self._filled.wait()

    def acknowledge(self, key: Key) -> None:
        """The server has it, or will never take it: it is done with. Unknown keys are old news."""
        with self._lock:
            queued = self._take_back(key)
            if queued:
                self._bytes -= queued.size
        self._settled.set()

    def send_again(self, key: Key) -> None:
        """The server could not take it now: it waits again, before all others."""
        with self._lock:
            queued = self._take_back(key)
            if queued:
                self._waiting.appendleft(queued)
        self._filled.set()

    def send_all_again(self) -> None:
        """The connection is gone: what was not acknowledged waits again, in its order."""
        with self._lock:
            self._waiting.extendleft(reversed(self._sent.values()))
            self._sent.clear()
            self._sent_bytes = 0
        self._filled.set()

    def _take_back(self, key: Key) -> Queued | None:
        queued = self._sent.pop(key, None)
        if queued:
            self._sent_bytes -= queued.size
        return queued

    @property
    def sent_bytes(self) -> int:
        """Bytes sent and not acknowledged yet."""
        with self._lock:
            return self._sent_bytes

    @property
    def held_batches(self) -> int:
        """Batches that wait, for their turn or for their acknowledgement."""
        with self._lock:
            return len(self._waiting) + len(self._sent)

    @property
    def held_events(self) -> int:
        """Events in those batches."""
        with self._lock:
            return sum(queued.batch.event_count for queued in (*self._waiting, *self._sent.values()))

    async def wait_for_acknowledgement(self) -> None:
        """Returns after the next acknowledgement."""
        self._settled.clear()
        await self._settled.wait()

    async def wait_until_empty(self) -> None:
        """Returns when everything is acknowledged."""
        while self.held_batches:
            await self.wait_for_acknowledgement()
