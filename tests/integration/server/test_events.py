"""Events are read page by page: complete, in order, and limited by filters; bad cursors are refused."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Line, Run, make_machine, rows, stacks
from tests.integration.server.tables import TABLES, asked

from scope_server.errors import InvalidQuery
from scope_server.store.reading import reader
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import EventQuery, Order, Page, Reader

BEGIN = datetime.fromtimestamp((BOOT_TO_UTC_NS + FIRST_KTIME_NS) / 1e9, UTC)
Ask = Callable[..., Any]


@pytest.fixture
async def events(line: Line) -> AsyncIterator[Reader]:
    """A reader of the line's database."""
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES)
        yield Reader(database)


async def every(events: Reader, query: EventQuery) -> list[int]:
    """`arg0` of all rows, page by page."""
    found: list[int] = []
    while True:
        page = await events.page(query)
        found += [event["arg0"] for event in page.events]
        if not page.next:
            return found
        query = replace(query, cursor=page.next)


async def test_rows_are_read_as_they_were_sent(line: Line, events: Reader) -> None:
    """Every value is read as sent: signed, unsigned 64-bit, absent, names, ns, process, machine and task."""
    run = Run()
    ktimes = [FIRST_KTIME_NS + 1001 * n for n in range(101)]
    await line.send(run.batch(1, rows(101, ktime_ns=ktimes)))
    page = await events.page(asked(limit=1000, order=Order.ASCENDING))
    assert [event["arg0"] for event in page.events] == list(range(101))
    first = page.events[0]
    assert (first["duration_ns"], first["uid"], first["arg5"]) == ((1 << 64) - 1, (1 << 32) - 1, -5)
    assert (first["pid"], first["start_ns"], first["comm"], first["name"]) == (4711, 500, "one", "read")
    assert (page.events[4]["name"], page.events[6]["ret"]) == (None, None)
    assert (first["machine_id"], first["hostname"]) == (line.machine.machine_id, "stand-in")
    assert first["task_id"] == str(run.task_id)
    assert first["time"] == f"{BEGIN:%Y-%m-%dT%H:%M:%S}.000000000Z"
    assert page.events[1]["time"].endswith(".000001001Z")
    assert page.events[100]["ktime_ns"] == FIRST_KTIME_NS + 100_100
    assert page.next == ""
    assert list(first)[:5] == ["time", "ktime_ns", "machine_id", "hostname", "task_id"]


async def test_stacks_are_read_as_text(line: Line, events: Reader) -> None:
    """A stack is read as one text, and a filter can match a whole stack."""
    await line.send(Run().batch(1, stacks(["main;a;b", None, "main;a"]), stream="cuda_live"))
    page = await events.page(asked("cuda_live", order=Order.ASCENDING))
    assert [event["stack"] for event in page.events] == ["main;a;b", None, "main;a"]
    page = await events.page(asked("cuda_live", "stack = 'main;a'"))
    assert [event["stack_id"] for event in page.events] == [2]
    assert (await events.page(asked("cuda_live", "stack = main"))).events == []


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
async def test_pages_are_complete_and_do_not_overlap(line: Line, events: Reader, order: Order) -> None:
    """Following `next` returns every row once, in order, even if batches arrived in reverse."""
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n)) for n in reversed(range(23))])
    found = await every(events, asked(limit=97, order=order))
    expected = list(range(101 * 23))
    assert found == (expected if order is Order.ASCENDING else expected[::-1])


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
@pytest.mark.parametrize("blocks", [1, 2])
async def test_pages_of_filtered_rows_are_complete(
    line: Line, events: Reader, order: Order, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filtered pages are complete and in order, even if blocks are skipped, overlap, are late or share times."""
    monkeypatch.setattr(reader, "_FIRST_WINDOW", blocks)
    monkeypatch.setattr(reader, "_WINDOW_GROWTH", 2)
    run = Run()
    batches, expected = [], []
    for n in range(40):
        length = 30 if n % 7 else 3_000  # µs between rows: every seventh batch spans many others
        ktimes = [FIRST_KTIME_NS + 1000 * (n * 50 + k * length) for k in range(10)]
        pid = 815 if n % 3 == 0 else 4711
        batches.append(
            run.batch(n + 1, rows(10, 10 * n, pid=pid, ktime_ns=ktimes, comm=[f"comm {k % 4}" for k in range(10)]))
        )
        if pid == 815:
            expected += [(ktimes[k], 10 * n + k) for k in range(10) if k % 4 == 2]
    for start in range(0, 40, 8):  # so that batches are not stored in order of time
        await line.send(*batches[start : start + 8][::-1])
    query = asked(where="pid = 815 and comm = 'comm 2'", limit=7, order=order)
    found = await every(events, query)
    assert sorted(found) == sorted(number for _, number in expected)
    times = {number: ktime for ktime, number in expected}
    in_order = [times[number] for number in found]
    assert in_order == sorted(in_order, reverse=order is Order.DESCENDING)
    since, until = BEGIN + timedelta(microseconds=400), BEGIN + timedelta(microseconds=1700)
    inside = await every(events, replace(query, since=since, until=until))
    within = range(FIRST_KTIME_NS + 400_000, FIRST_KTIME_NS + 1_700_000)
    assert sorted(inside) == sorted(number for ktime, number in expected if ktime in within)
    assert inside


async def test_filters_and_times_narrow(line: Line, events: Reader) -> None:
    """Filters, machines and time limits, alone and together, return exactly the rows that match."""
    other = make_machine(line.conninfo, "f" * 32)
    await line.send(Run().batch(1, rows(101)), Run().batch(1, rows(103, 101, pid=815)))
    await line.send(Run().batch(1, rows(7, 500)), machine=other)
    assert len(await every(events, asked(where="pid = 815"))) == 103
    assert len(await every(events, asked(where="pid = 4711"))) == 108
    assert len(await every(events, asked(where="pid = 4711 and start_ns = 500", machines=[other.key]))) == 7
    assert await every(events, asked(where="pid = 1")) == []
    assert await every(events, asked(where=f"pid = {1 << 63}")) == []
    assert sorted(
        await every(events, asked(where="comm = 'two\\xff' and pid = 4711", machines=[line.machine.key]))
    ) == list(range(1, 101, 2))
    assert await every(events, asked(where="comm = nobody")) == []
    assert len(await every(events, asked(where="comm != nobody"))) == 211
    assert sorted(await every(events, asked(where="arg0 >= 5 and arg0 <= 7"))) == [5, 6, 7]
    assert sorted(await every(events, asked(where="ret >= -2 and pid = 4711 and arg0 <= 101"))) == [0, 1, 2]
    assert await every(events, asked(where="name != read")) == []
    assert len(await every(events, asked(machines=[line.machine.key]))) == 204
    assert await every(events, asked(machines=[other.key], order=Order.ASCENDING)) == list(range(500, 507))
    assert await every(events, asked(machines=[])) == []
    assert len(await every(events, asked(where=f"arg0 >= {-(1 << 63)} and arg0 <= {(1 << 64) - 1}"))) == 211
    middle = BEGIN + timedelta(microseconds=50)
    assert min(await every(events, asked(since=middle))) == 50
    assert max(await every(events, asked(until=middle))) == 49
    assert await every(events, asked(since=middle, until=middle)) == []


async def test_unsigned_numbers_are_compared_as_such(line: Line, events: Reader) -> None:
    """Filters compare unsigned numbers correctly, although the column stores 2**63 and more as negative."""
    durations = [0, 5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    await line.send(Run().batch(1, rows(5, duration_ns=durations)))
    meanings = {">=": int.__ge__, "<=": int.__le__, ">": int.__gt__, "<": int.__lt__, "=": int.__eq__, "!=": int.__ne__}
    for bound in (-1, 0, 5, 1 << 63, (1 << 64) - 1, 1 << 64):
        for operator, meets in meanings.items():
            found = await every(events, asked(where=f"duration_ns {operator} {bound}", order=Order.ASCENDING))
            assert found == [n for n, duration in enumerate(durations) if meets(duration, bound)], (operator, bound)


def _cursor(*place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "AAAA",
        "é",
        "W" * 100_000,
        base64.urlsafe_b64encode(b"[" * 140).decode(),
        _cursor("9999-12-31T23:59:59.999999+00:00", 1, 1),
        _cursor("9999-12-31T23:59:59-12:00", 1, 1),
        _cursor("2026-01-01T00:00:00+00:00", float("inf"), 1),
        _cursor("2026-01-01T00:00:00+00:00", 1 << 63, 1),
        _cursor("2026-01-01T00:00:00+00:00", True, 1),
        _cursor(5, 1, 1),
        _cursor("2026-01-01T00:00:00+00:00", 1),
    ],
)
async def test_a_cursor_that_is_none_is_told(events: Reader, cursor: str) -> None:
    """An invalid cursor is refused; the error names the parameter."""
    with pytest.raises(InvalidQuery) as refused:
        await events.page(asked(cursor=cursor))
    assert "cursor: not a cursor" in str(refused.value)


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
async def test_times_at_the_ends_of_the_calendar_are_times(line: Line, events: Reader, order: Order) -> None:
    """A query may begin in year 1 and end in year 9999, and returns all rows between."""
    await line.send(Run().batch(1, rows(11)))
    ends: dict[str, Any] = {"since": datetime(1, 1, 1, tzinfo=UTC), "until": datetime.max.replace(tzinfo=UTC)}
    for given in ends, {"since": ends["since"]}, {"until": ends["until"]}:
        for where in "", "pid = 4711":
            assert len(await every(events, asked(order=order, where=where, **given))) == 11
    assert await events.page(asked(since=ends["until"], order=order)) == Page([], "", False)
    assert await events.page(asked(until=ends["since"], where="pid = 4711", order=order)) == Page([], "", False)
