"""Following a stream returns every row once, in the order of commits, however late the row is."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from tests.integration.server.closed_days import LONG_AGO, compacted
from tests.integration.server.records import Line, Run, make_machine, rows
from tests.integration.server.tables import TABLES, asked
from tests.integration.server.test_events import BEGIN

from scope_server.store.reading import by_commit
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import EventQuery, Order, Reader


@pytest.fixture
async def events(line: Line) -> AsyncIterator[Reader]:
    """A reader of the line's database."""
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES)
        yield Reader(database)


class Follower:
    """Follows a query: each `new` continues where the last one ended."""

    def __init__(self, events: Reader, query: EventQuery) -> None:
        self._events, self._query = events, replace(query, order=Order.STORED)
        self.pages: list[int] = []  # rows of each page

    async def new(self) -> list[int]:
        """`arg0` of the rows committed since the last call."""
        found: list[int] = []
        more = True
        while more:
            page = await self._events.page(self._query)
            assert page.next
            self._query = replace(self._query, cursor=page.next)
            found += [event["arg0"] for event in page.events]
            self.pages.append(len(page.events))
            more = page.more
        return found


async def test_rows_are_told_as_they_are_committed(line: Line, events: Reader) -> None:
    """Each row committed after the first request is returned once, also late ones; resent rows are not."""
    run = Run()
    await line.send(run.batch(1, rows(11)))
    follower = Follower(events, asked())
    assert await follower.new() == []
    await line.send(run.batch(2, rows(13, 100)))
    assert await follower.new() == list(range(100, 113))
    assert await follower.new() == []
    await line.send(run.batch(4, rows(3, 300)), run.batch(3, rows(5, 200), boot_to_utc_ns=LONG_AGO))
    assert sorted(await follower.new()) == [*range(200, 205), *range(300, 303)]
    await line.send(run.batch(4, rows(3, 300)))  # resent
    assert await follower.new() == []


async def test_from_a_time_on_all_there_is_comes_first(line: Line, events: Reader) -> None:
    """With `since`, stored rows come first, then new ones within the same bounds; no row comes twice."""
    run = Run()
    await line.send(run.batch(1, rows(101)))
    follower = Follower(events, asked(since=BEGIN + timedelta(microseconds=50), limit=7))
    assert await follower.new() == list(range(50, 101))
    await line.send(run.batch(2, rows(101, 30)))
    assert await follower.new() == list(range(50, 131))
    until = Follower(events, asked(since=BEGIN, until=BEGIN + timedelta(microseconds=3)))
    assert await until.new() == [0, 1, 2]


async def test_a_transaction_that_takes_long_is_not_passed_by(line: Line, events: Reader) -> None:
    """Rows of a long transaction are returned once it commits, after rows of later transactions."""
    run = Run()
    await line.send(run.batch(1, rows(7)))
    follower = Follower(events, asked())
    assert await follower.new() == []
    with psycopg.connect(line.conninfo) as slow:
        slow.execute(
            "INSERT INTO store.batches (id, run, sequence, first_time, last_time, boot_to_utc_ns, event_count,"
            " machine, stream) SELECT nextval('store.batch_ids'), run, 99, first_time, last_time,"
            " boot_to_utc_ns, event_count, machine, stream FROM store.batches"
        )
        slow.execute("CREATE TEMP TABLE copied AS SELECT * FROM fresh.syscall")
        slow.execute("UPDATE copied SET batch = array_fill((SELECT max(id) FROM store.batches), ARRAY[row_count])")
        slow.execute("INSERT INTO fresh.syscall SELECT * FROM copied")
        await line.send(run.batch(2, rows(5, 100)))
        assert await follower.new() == list(range(100, 105))
        assert await follower.new() == []
        slow.commit()
    assert await follower.new() == list(range(7))
    assert await follower.new() == []


@pytest.mark.parametrize("limit", [7, 10, 1000])
async def test_pages_are_complete_and_do_not_overlap(
    line: Line, events: Reader, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following returns each row once for any page size, even if blocks are packed between pages."""
    monkeypatch.setattr(by_commit, "_MOST_BATCHES", 3)
    monkeypatch.setattr(by_commit, "_ENOUGH_ROWS", 25)
    run = Run()
    follower = Follower(events, asked(limit=limit))
    assert await follower.new() == []
    for n in range(23):
        await line.send(run.batch(n + 1, rows(10, 10 * n)))
    first = await events.page(replace(asked(limit=limit), order=Order.STORED, cursor=follower._query.cursor))
    compacted(line)
    assert await follower.new() == list(range(230))
    assert [event["arg0"] for event in first.events] == list(range(len(first.events)))
    assert first.more
    assert max(follower.pages) <= limit


async def test_what_is_followed_can_be_filtered(line: Line, events: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following with a filter or a machine returns every matching row, also with names first seen in a new batch."""
    monkeypatch.setattr(by_commit, "_MOST_BATCHES", 2)
    other, run = make_machine(line.conninfo, "f" * 32), Run()
    by_name = Follower(events, asked(where="comm = rare or comm ~ 'ra*e' and ret < 0"))
    of_machine = Follower(events, asked(machines=[other.key]))
    assert (await by_name.new(), await of_machine.new()) == ([], [])
    for n in range(11):
        await line.send(run.batch(n + 1, rows(10, 10 * n, comm=["rare" if n == 7 else f"comm {n}"] * 10)))
    await line.send(Run().batch(1, rows(3, 500)), machine=other)
    assert await by_name.new() == list(range(70, 80))
    assert await of_machine.new() == [500, 501, 502]


async def test_rows_from_before_the_order_was_kept_are_told(line: Line, events: Reader) -> None:
    """Batches that an older server stored, without a known transaction, come first."""
    run = Run()
    await line.send(run.batch(1, rows(7)), run.batch(2, rows(7, 7)))
    line.query("UPDATE store.batches SET xact = '3'")
    await line.send(run.batch(3, rows(7, 14)))
    follower = Follower(events, asked(since=BEGIN))
    assert await follower.new() == list(range(21))
