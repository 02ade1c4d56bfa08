"""A question that several viewers ask: its new rows are read once for all of them, after each commit."""

import asyncio
import json
import logging

from scope_server.errors import ScopeServerError, StoreUnavailable
from scope_server.live.committed import Committed
from scope_server.live.viewer import Chunk, Viewer
from scope_server.store.reading.by_commit import Place
from scope_server.store.reading.reader import EventQuery, Reader

log = logging.getLogger(__name__)

_PAUSE_S = 0.1  # commits within it are read together
_MOST_PAGES = 5  # that are read after a commit; of more rows than they have, the newest are skipped
_AGAIN_S = 1.0


class Question:
    """Reads until it is cancelled.

    Args:
        query: in the order of commits, without a cursor.

    Attributes:
        viewers: who gets what is read.
    """

    def __init__(self, query: EventQuery, reader: Reader, committed: Committed) -> None:
        self._query, self._reader, self._committed = query, reader, committed
        self._begun = asyncio.Event()
        self._continues = False  # the place of the last chunk is within a snapshot; some viewers wait for its end
        self.viewers: set[Viewer] = set()

    async def begun(self) -> None:
        """Waits until rows that are committed from now on are read."""
        await self._begun.wait()

    async def run(self) -> None:
        """Reads after each commit. When it ends, so do all viewers."""
        ending: ScopeServerError = StoreUnavailable("the server ends; try again in a moment")
        try:
            with self._committed.of(self._query.table.name) as told:
                await self._run(told)
        except ScopeServerError as error:
            ending = error
        finally:
            self._begun.set()
            for viewer in self.viewers:
                viewer.end(ending)

    async def _run(self, told: asyncio.Event) -> None:
        place = await self._now()
        self._begun.set()
        while True:
            await told.wait()
            await asyncio.sleep(_PAUSE_S)
            told.clear()
            try:
                place = await self._read(place)
            except StoreUnavailable as error:
                log.info("a live view waits for the database", extra={"reason": str(error)})
                told.set()
                await asyncio.sleep(_AGAIN_S)

    async def _read(self, place: Place) -> Place:
        """Shows what is new since a place; returns where that ends."""
        for _ in range(_MOST_PAGES):
            found = await self._reader.follow(self._query, place)
            place = found.place
            self._show(Chunk([json.dumps(row) for row in found.rows], found.transactions, place))
            if not found.more:
                return place
        skipped = await self._reader.skip(self._query, place)
        self._show(Chunk((), (), skipped.place, skipped.events))
        return skipped.place

    def _show(self, chunk: Chunk) -> None:
        continues, self._continues = self._continues, bool(chunk.place.upto)
        if chunk.rows or chunk.missed or continues:
            for viewer in self.viewers:
                viewer.put(chunk)

    async def _now(self) -> Place:
        while True:
            try:
                return (await self._reader.follow(self._query, None)).place
            except StoreUnavailable:
                await asyncio.sleep(_AGAIN_S)
