"""One who looks at a question's answers: gets them in order, and is told what it missed because it was slow."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from scope_server.store.reading.by_commit import Place, age_of, is_visible

_MOST_CHUNKS = 16  # that wait for a slow viewer


@dataclass(frozen=True)
class Chunk:
    """Rows that were committed since the chunk before.

    Attributes:
        rows: each as JSON.
        transactions: of each row.
        place: where they end.
        missed: events between the chunk before and this one that are left out. Of a viewer that was slow they are those
            that it asked for; when the server was slow, all of the stream.
    """

    rows: Sequence[str]
    transactions: Sequence[int]
    place: Place
    missed: int = 0


@dataclass(frozen=True)
class Seen:
    """What a viewer gets.

    Attributes:
        rows: each as JSON.
        missed: events before them that it does not get.
        place: where it can go on after them.
    """

    rows: Sequence[str]
    missed: int
    place: Place


class Viewer:
    """A bounded queue of chunks."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._missed = 0
        self._filled = asyncio.Event()
        self._ended: Exception | None = None
        self._had = ""  # a snapshot

    def begin_after(self, place: Place) -> None:
        """Rows up to this place, which is the end of a snapshot, are left out from now on: the viewer has them."""
        self._had = place.seen

    def put(self, chunk: Chunk) -> None:
        """Adds a chunk; a viewer that is slow misses the oldest."""
        self._chunks.append(chunk)
        if len(self._chunks) > _MOST_CHUNKS:
            oldest = self._chunks.popleft()
            self._missed += len(oldest.rows) + oldest.missed
        self._filled.set()

    def end(self, error: Exception) -> None:
        """Lets `next` raise an error when all chunks were taken."""
        self._ended = error
        self._filled.set()

    async def next(self) -> Seen:
        """What comes next; waits for it."""
        rows, missed = list[str](), 0
        while True:
            chunk = await self._next()
            missed, self._missed = missed + chunk.missed + self._missed, 0
            if not self._had:
                return Seen(chunk.rows, missed, chunk.place)
            each = zip(chunk.rows, chunk.transactions, strict=True)
            rows += [row for row, transaction in each if not is_visible(transaction, self._had)]
            if not chunk.place.upto and age_of(chunk.place.seen) >= age_of(self._had):
                self._had = ""
                return Seen(rows, missed, chunk.place)
            # With a cursor of this place, rows that the viewer has would come again.

    async def _next(self) -> Chunk:
        while not self._chunks:
            if self._ended:
                raise self._ended
            self._filled.clear()
            await self._filled.wait()
        return self._chunks.popleft()
