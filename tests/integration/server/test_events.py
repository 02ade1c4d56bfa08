"""Events are read page by page: complete, in order, narrowed by filters, and never by the wrong ones."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Line, Run, make_machine, rows, stacks

from scope_bpf.probes import probes
from scope_server.errors import InvalidQuery
from scope_server.store.reading import reader
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import EventQuery, Filter, Page, Reader
from scope_server.store.schema.columns import stream_tables

TABLES = stream_tables(probes())
BEGIN = datetime.fromtimestamp((BOOT_TO_UTC_NS + FIRST_KTIME_NS) / 1e9, UTC)
Ask = Callable[..., Any]


def _query(stream: str = "syscall", **given: Any) -> EventQuery:
    """A query; names that are none of its own are filters, an operator after two underscores."""
    own = {name: given.pop(name) for name in list(given) if name in EventQuery.__dataclass_fields__}
    filters = [Filter(*_split(name), str(value)) for name, value in given.items()]
    return EventQuery(TABLES[stream], filters, **own)


def _split(name: str) -> tuple[str, str]:
    column, _, operator = name.partition("__")
    return column, operator or "eq"


@pytest.fixture
async def events(line: Line) -> AsyncIterator[Reader]:
    """Reads the line's database."""
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES.values())
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
    """Every value comes back: signs, 64 unsigned bits, absent ones, names, nanoseconds, who and whose."""
    run = Run()
    ktimes = [FIRST_KTIME_NS + 1001 * n for n in range(101)]
    await line.send(run.batch(1, rows(101, ktime_ns=ktimes)))
    page = await events.page(_query(limit=1000, ascending=True))
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
    """Frames are joined again, and a stack can be asked for."""
    await line.send(Run().batch(1, stacks(["main;a;b", None, "main;a"]), stream="cuda_live"))
    page = await events.page(_query("cuda_live", ascending=True))
    assert [event["stack"] for event in page.events] == ["main;a;b", None, "main;a"]
    page = await events.page(_query("cuda_live", stack="main;a"))
    assert [event["stack_id"] for event in page.events] == [2]
    assert (await events.page(_query("cuda_live", stack="main"))).events == []


@pytest.mark.parametrize("ascending", [True, False])
async def test_pages_are_complete_and_do_not_overlap(line: Line, events: Reader, ascending: bool) -> None:
    """Following `next` gives every row once, in order, however the batches lie."""
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n)) for n in reversed(range(23))])
    found = await every(events, _query(limit=97, ascending=ascending))
    expected = list(range(101 * 23))
    assert found == (expected if ascending else expected[::-1])


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("blocks", [1, 2])
async def test_pages_of_filtered_rows_are_complete(
    line: Line, events: Reader, ascending: bool, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with filters that skip blocks, where these overlap, are late, are long, and share times."""
    monkeypatch.setattr(reader, "_FIRST_WINDOW", blocks)
    monkeypatch.setattr(reader, "_WINDOW_GROWTH", 2)
    run = Run()
    batches, expected = [], []
    for n in range(40):
        length = 30 if n % 7 else 3_000  # µs from row to row: every seventh batch spans many others
        ktimes = [FIRST_KTIME_NS + 1000 * (n * 50 + k * length) for k in range(10)]
        pid = 815 if n % 3 == 0 else 4711
        batches.append(
            run.batch(n + 1, rows(10, 10 * n, pid=pid, ktime_ns=ktimes, comm=[f"comm {k % 4}" for k in range(10)]))
        )
        if pid == 815:
            expected += [(ktimes[k], 10 * n + k) for k in range(10) if k % 4 == 2]
    for start in range(0, 40, 8):  # so that numbers and times of batches are in different orders
        await line.send(*batches[start : start + 8][::-1])
    query = _query(limit=7, ascending=ascending, pid=815, comm="comm 2")
    found = await every(events, query)
    assert sorted(found) == sorted(number for _, number in expected)
    times = {number: ktime for ktime, number in expected}
    in_order = [times[number] for number in found]
    assert in_order == sorted(in_order, reverse=not ascending)
    since, until = BEGIN + timedelta(microseconds=400), BEGIN + timedelta(microseconds=1700)
    inside = await every(events, replace(query, since=since, until=until))
    within = range(FIRST_KTIME_NS + 400_000, FIRST_KTIME_NS + 1_700_000)
    assert sorted(inside) == sorted(number for ktime, number in expected if ktime in within)
    assert inside


async def test_filters_and_times_narrow(line: Line, events: Reader) -> None:
    """Each kind of filter gives the rows that meet it, alone and together."""
    other = make_machine(line.conninfo, "f" * 32)
    await line.send(Run().batch(1, rows(101)), Run().batch(1, rows(103, 101, pid=815)))
    await line.send(Run().batch(1, rows(7, 500)), machine=other)
    assert len(await every(events, _query(pid=815))) == 103
    assert len(await every(events, _query(pid=4711))) == 108
    assert len(await every(events, _query(pid=4711, start_ns=500, machines=[other.key]))) == 7
    assert await every(events, _query(pid=1)) == []
    assert await every(events, _query(pid=1 << 63)) == []
    assert sorted(await every(events, _query(comm="two\\xff", pid=4711, machines=[line.machine.key]))) == list(
        range(1, 101, 2)
    )
    assert await every(events, _query(comm="nobody")) == []
    assert len(await every(events, _query(comm__ne="nobody"))) == 211
    assert sorted(await every(events, _query(arg0__gte=5, arg0__lte=7))) == [5, 6, 7]
    assert sorted(await every(events, _query(ret__gte=-2, pid=4711, arg0__lte=101))) == [0, 1, 2]
    assert await every(events, _query(name__ne="read")) == []
    assert len(await every(events, _query(machines=[line.machine.key]))) == 204
    assert await every(events, _query(machines=[other.key], ascending=True)) == list(range(500, 507))
    assert await every(events, _query(machines=[])) == []
    assert len(await every(events, _query(arg0__gte=-(1 << 63), arg0__lte=(1 << 64) - 1))) == 211
    middle = BEGIN + timedelta(microseconds=50)
    assert min(await every(events, _query(since=middle))) == 50
    assert max(await every(events, _query(until=middle))) == 49
    assert await every(events, _query(since=middle, until=middle)) == []


async def test_unsigned_numbers_are_compared_as_such(line: Line, events: Reader) -> None:
    """From 2**63 on a number is above all smaller ones, though the column keeps it as negative."""
    durations = [0, 5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    await line.send(Run().batch(1, rows(5, duration_ns=durations)))
    for bound in (-1, 0, 5, 1 << 63, (1 << 64) - 1):
        for operator, meets in (("gte", int.__ge__), ("lte", int.__le__), ("eq", int.__eq__), ("ne", int.__ne__)):
            found = await every(events, _query(**{f"duration_ns__{operator}": bound}, ascending=True))
            assert found == [n for n, duration in enumerate(durations) if meets(duration, bound)], (operator, bound)


def _cursor(*place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nonsense": 1}, "has no column 'nonsense'; it has: pid"),
        ({"arg0; DROP TABLE": 1}, "has no column 'arg0; DROP TABLE'"),
        ({"pid": "x"}, "pid: 'x' is not a whole number"),
        ({"pid": "１２"}, "is not a whole number"),
        ({"pid": 1 << 70}, "has more than 64 bits"),
        ({"arg0": "9" * 5_000}, "has more than 64 bits"),
        ({"pid__gte": 1}, "pid: only equality"),
        ({"comm__gte": "a"}, "comm: a text can be asked for"),
        ({"comm": "a\ud800"}, "comm: the value is no text in UTF-8"),
        ({"stream": "syscall_summary", "latency": 1}, "a column of bigint[] cannot be filtered by"),
        ({"stream": "open", "path": "a\0b"}, "or it has a NUL"),
        ({"cursor": "AAAA"}, "cursor: this is none"),
        ({"cursor": "é"}, "cursor: this is none"),
        ({"cursor": "W" * 100_000}, "cursor: this is none"),
        ({"cursor": base64.urlsafe_b64encode(b"[" * 140).decode()}, "cursor: this is none"),
        ({"cursor": _cursor("9999-12-31T23:59:59.999999+00:00", 1, 1)}, "cursor: this is none"),
        ({"cursor": _cursor("9999-12-31T23:59:59-12:00", 1, 1)}, "cursor: this is none"),
        ({"cursor": _cursor("2026-01-01T00:00:00+00:00", float("inf"), 1)}, "cursor: this is none"),
        ({"cursor": _cursor("2026-01-01T00:00:00+00:00", 1 << 63, 1)}, "cursor: this is none"),
        ({"cursor": _cursor("2026-01-01T00:00:00+00:00", True, 1)}, "cursor: this is none"),
        ({"cursor": _cursor(5, 1, 1)}, "cursor: this is none"),
        ({"cursor": _cursor("2026-01-01T00:00:00+00:00", 1)}, "cursor: this is none"),
    ],
)
async def test_what_cannot_be_asked_is_told(events: Reader, given: dict[str, Any], said: str) -> None:
    """A query that makes no sense is refused; the error names what is wrong."""
    with pytest.raises(InvalidQuery) as refused:
        await events.page(_query(**given))
    assert said in str(refused.value)


@pytest.mark.parametrize("ascending", [True, False])
async def test_times_at_the_ends_of_the_calendar_are_times(line: Line, events: Reader, ascending: bool) -> None:
    """Year 1 and year 9999 bound nothing."""
    await line.send(Run().batch(1, rows(11)))
    ends = {"since": datetime(1, 1, 1, tzinfo=UTC), "until": datetime.max.replace(tzinfo=UTC)}
    for given in ends, {"since": ends["since"]}, {"until": ends["until"]}:
        for filters in {}, {"pid": 4711}:
            assert len(await every(events, _query(ascending=ascending, **given, **filters))) == 11
    assert await events.page(_query(since=ends["until"], ascending=ascending)) == Page([], "")
    assert await events.page(_query(until=ends["since"], ascending=ascending, pid=4711)) == Page([], "")
