"""Live views: every row once, one reading for all viewers, and those that cannot keep up are told what they missed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.integration.server.records import Line, Run, lined, rows, stacks
from tests.integration.server.tables import TABLES, asked
from tests.integration.server.test_events import BEGIN

from scope_server.errors import InvalidQuery, TooManyRequests
from scope_server.live import hub as hubs
from scope_server.live import question as questions
from scope_server.live import viewer as viewers
from scope_server.live.committed import Committed
from scope_server.live.hub import Hub
from scope_server.signals import LocalSignals, Topic
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import EventQuery, Followed, Reader

PATIENCE_S = 60.0


class CountingReader(Reader):
    """A reader that counts its queries, and can be held."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked = 0
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def follow(self, query: EventQuery, after: Any) -> Followed:
        """Counted."""
        await self.may_read.wait()
        self.asked += 1
        return await super().follow(query, after)


class Live:
    """A server's hub, over a line whose writers tell it of commits."""

    def __init__(self, line: Line, hub: Hub, reader: CountingReader) -> None:
        self.line, self.hub, self.reader = line, hub, reader

    def viewer(self, query: EventQuery | None = None) -> "Looking":
        """Somebody who looks from now on."""
        return Looking(self.hub, query or asked())


class Looking:
    """A viewer: what it has got so far. Use it as a context."""

    def __init__(self, hub: Hub, query: EventQuery) -> None:
        self._hub, self._query = hub, query
        self.numbers: list[int] = []  # `arg0` of the rows
        self.missed = 0
        self.cursor = ""
        self.error: Exception | None = None
        self.may_take = asyncio.Event()
        self.may_take.set()

    async def __aenter__(self) -> "Looking":
        before = self._hub._viewers
        self._task = asyncio.create_task(self._look())
        async with asyncio.timeout(PATIENCE_S):
            while not self.error and (self._hub._viewers == before or not self._is_read()):
                await asyncio.sleep(0.02)
        return self

    def _is_read(self) -> bool:
        """Whether rows that are committed from now on are read: those before are of the past."""
        return all(question._begun.is_set() for question, _ in self._hub._asked.values())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        try:
            async with aclosing(self._hub.watch(self._query)) as pieces:
                async for piece in pieces:
                    self.numbers += [json.loads(row)["arg0"] for row in piece.rows]
                    self.missed += piece.missed
                    self.cursor = piece.place.cursor()
                    await self.may_take.wait()
        except Exception as error:
            self.error = error

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until something holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                assert not self.error
                await asyncio.sleep(0.02)


@pytest.fixture
async def live(database: str) -> AsyncIterator[Live]:
    """A line with a hub."""
    signals, committed = LocalSignals(), Committed()
    signals.on(Topic.COMMITTED, committed.tell)
    told = partial(signals.tell, Topic.COMMITTED)
    async with lined(database, committed=told) as line, Database(database, 8, 20) as opened:
        await opened.prepare(TABLES)
        reader = CountingReader(opened)
        hub = Hub(reader, committed)
        running = asyncio.create_task(hub.run())
        await asyncio.sleep(0)
        yield Live(line, hub, reader)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_rows_come_as_they_are_committed(live: Live) -> None:
    """Each once; not those from before."""
    run = Run()
    await live.line.send(run.batch(1, rows(10)))
    async with live.viewer() as viewer:
        for n in range(2, 12):
            await live.line.send(run.batch(n, rows(10, 10 * n)))
        await viewer.until(lambda: len(viewer.numbers) >= 100)
        assert viewer.numbers == list(range(20, 120))


async def test_a_hundred_viewers_cost_one_query_a_commit(live: Live) -> None:
    """However many ask the same, and also those with the same filter; without a commit of the stream, none is made."""
    run, filtered = Run(), asked(where="arg0 >= 0 and comm = one")
    crowd = [live.viewer() for _ in range(100)] + [live.viewer(filtered) for _ in range(100)]
    await asyncio.gather(*(viewer.__aenter__() for viewer in crowd))
    await crowd[0].until(lambda: live.hub._viewers == len(crowd))
    before = live.reader.asked
    for n in range(5):
        await live.line.send(run.batch(n + 1, rows(10, 10 * n)))
        await crowd[0].until(lambda: all(viewer.numbers for viewer in crowd))
        await asyncio.gather(*(viewer.until(lambda v=viewer, n=n: v.numbers[-1] >= 10 * n) for viewer in crowd))
    await live.line.send(run.accounts(), run.batch(1, stacks([None]), stream="cuda_live"))
    await asyncio.sleep(1.5)
    assert live.reader.asked - before == 5 * 2  # five commits, two questions
    assert {tuple(viewer.numbers) for viewer in crowd} == {tuple(range(50)), tuple(range(0, 50, 2))}
    await asyncio.gather(*(viewer.__aexit__() for viewer in crowd))
    assert not live.hub._asked


async def test_a_reconnect_misses_and_repeats_nothing(live: Live) -> None:
    """With the cursor of the last piece, while rows are committed all the time."""
    run, got = Run(), list[int]()
    stop = asyncio.Event()

    async def commit() -> int:
        sent = 0
        while not stop.is_set():
            await live.line.send(run.batch(sent + 1, rows(10, 10 * sent)))
            sent += 1
        return 10 * sent

    async with live.viewer() as first:
        committing = asyncio.create_task(commit())
        await first.until(lambda: len(first.numbers) > 30)
    got, cursor = first.numbers, first.cursor
    for _ in range(6):
        async with live.viewer(asked(cursor=cursor)) as viewer:
            await viewer.until(lambda: len(viewer.numbers) > 30)
        got, cursor = got + viewer.numbers, viewer.cursor
    stop.set()
    sent = await committing
    async with live.viewer(asked(cursor=cursor)) as viewer:
        await viewer.until(lambda: len(got) + len(viewer.numbers) >= sent)
        await asyncio.sleep(0.5)
    assert got + viewer.numbers == list(range(sent))


async def test_from_a_time_on_the_past_comes_first(live: Live) -> None:
    """Then what is committed, without a hole between them."""
    run = Run()
    for n in range(30):
        await live.line.send(run.batch(n + 1, rows(10, 10 * n)))
    async with live.viewer(replace(asked(limit=30), since=BEGIN)) as viewer:
        for n in range(30, 40):
            await live.line.send(run.batch(n + 1, rows(10, 10 * n)))
        await viewer.until(lambda: len(viewer.numbers) >= 400)
    assert viewer.numbers == list(range(400))


async def test_a_slow_viewer_is_told_what_it_missed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the newest, and the others get all."""
    monkeypatch.setattr(viewers, "_MOST_CHUNKS", 2)
    run = Run()
    async with live.viewer() as slow, live.viewer() as quick:
        slow.may_take.clear()
        for n in range(8):
            await live.line.send(run.batch(n + 1, rows(10, 10 * n)))
            await quick.until(lambda n=n: len(quick.numbers) == 10 * (n + 1))
        slow.may_take.set()
        await slow.until(lambda: slow.numbers[-1:] == [79])
        assert slow.missed > 0
        assert slow.missed + len(slow.numbers) == 80
        assert quick.numbers == list(range(80))
        assert quick.missed == 0


async def test_more_than_can_be_shown_is_told(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is faster than its reading: the newest goes on, and the count of what is left out is exact."""
    monkeypatch.setattr(questions, "_MOST_PAGES", 2)
    run = Run()
    async with live.viewer(asked(limit=10)) as viewer:
        live.reader.may_read.clear()
        for n in range(10):
            await live.line.send(run.batch(n + 1, rows(10, 10 * n)))
        live.reader.may_read.set()
        await viewer.until(lambda: viewer.missed > 0)
        await live.line.send(run.batch(11, rows(10, 100)))
        await viewer.until(lambda: viewer.numbers[-1:] == [109])
    assert viewer.numbers == [*range(len(viewer.numbers) - 10), *range(100, 110)]
    assert viewer.missed + len(viewer.numbers) == 110


async def test_views_are_bounded(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """More viewers and more different questions are refused; others go on."""
    monkeypatch.setattr(hubs, "_MOST_QUESTIONS", 2)
    monkeypatch.setattr(hubs, "_MOST_VIEWERS", 3)
    run = Run()
    async with (
        live.viewer() as first,
        live.viewer(asked(where="arg0 = 1")),
        live.viewer(asked(where="arg0 = 2")) as more,
    ):
        assert isinstance(more.error, TooManyRequests)
        assert "different filters" in str(more.error)
        async with live.viewer(), live.viewer() as too_many:
            assert isinstance(too_many.error, TooManyRequests)
        await live.line.send(run.batch(1, rows(10)))
        await first.until(lambda: first.numbers == list(range(10)))


async def test_a_cursor_that_is_none_is_refused(live: Live) -> None:
    """Before anything is asked."""
    with pytest.raises(InvalidQuery, match="cursor"):
        async with aclosing(live.hub.watch(asked(cursor="nonsense"))) as pieces:
            await anext(pieces)
