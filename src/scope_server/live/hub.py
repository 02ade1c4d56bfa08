"""Live views: viewers who ask the same share one reading of what is committed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from scope_catalogue.condition import Condition
from scope_server.errors import TooManyRequests
from scope_server.live.committed import Committed
from scope_server.live.question import Question
from scope_server.live.viewer import Seen, Viewer
from scope_server.store.reading.by_commit import Place, place_of
from scope_server.store.reading.reader import EventQuery, Order, Reader

_MOST_QUESTIONS = 64  # each is a query a commit
_MOST_VIEWERS = 2000
_BUSY_S = 10.0


Key = tuple[str, Condition | None, tuple[int, ...] | None, int | None, int]


class Hub:
    """Knows which questions are asked now."""

    def __init__(self, reader: Reader, committed: Committed) -> None:
        self._reader, self._committed = reader, committed
        self._asked: dict[Key, tuple[Question, asyncio.Task[None]]] = {}
        self._viewers = 0

    async def run(self) -> None:
        """Reads what is asked, until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            await asyncio.get_running_loop().create_future()

    async def watch(self, query: EventQuery) -> AsyncGenerator[Seen, None]:
        """Rows as they are committed, each once: from the query's cursor on, else from its time on, else from now on.

        Close it, see `contextlib.aclosing`.

        Raises:
            InvalidQuery: the cursor is none.
            QueryTooSlow: what was stored before now takes too long.
            TooManyRequests: there are too many viewers, or too many who ask something else than others.
            StoreUnavailable: the database cannot be reached when this begins.
        """
        query = replace(query, order=Order.STORED)
        place = place_of(query.cursor) if query.cursor else None
        has_past = place is not None or query.since is not None
        if has_past:
            async for seen in self._past(query, place):
                place = seen.place
                yield seen
        with self._viewer(replace(query, cursor="", since=None)) as (question, viewer):
            await question.begun()
            if has_past:  # what was committed meanwhile; then there is no hole
                async for seen in self._past(query, place):
                    place = seen.place
                    yield seen
            if place is not None:
                viewer.begin_after(place)
            while True:
                yield await viewer.next()

    async def _past(self, query: EventQuery, after: Place | None) -> AsyncIterator[Seen]:
        more = True
        while more:
            found = await self._reader.follow(query, after)
            after, more = found.place, found.more
            yield Seen([json.dumps(row) for row in found.rows], 0, after)

    @contextmanager
    def _viewer(self, asked: EventQuery) -> Iterator[tuple[Question, Viewer]]:
        if self._viewers >= _MOST_VIEWERS:
            raise TooManyRequests(_BUSY_S, "live views")
        machines = None if asked.machines is None else tuple(asked.machines)
        key = asked.table.name, asked.where, machines, asked.task, asked.limit
        question, viewer = self._question(key, asked), Viewer()
        question.viewers.add(viewer)
        self._viewers += 1
        try:
            yield question, viewer
        finally:
            self._viewers -= 1
            question.viewers.discard(viewer)
            if not question.viewers and self._asked.get(key, (None,))[0] is question:
                _, task = self._asked.pop(key)
                task.cancel()

    def _question(self, key: Key, asked: EventQuery) -> Question:
        question, task = self._asked.get(key, (None, None))
        if question and task and not task.done():
            return question
        if len(self._asked) >= _MOST_QUESTIONS:
            raise TooManyRequests(_BUSY_S, "live views with different filters")
        question = Question(asked, self._reader, self._committed)
        self._asked[key] = question, self._group.create_task(question.run())
        return question
