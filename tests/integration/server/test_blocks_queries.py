"""Rows in blocks are found as others are: by the view, by the function of a time, and page by page."""

import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.server.closed_days import LONG_AGO, compacted, in_blocks, singly
from tests.integration.server.records import FIRST_KTIME_NS, Line, Run, make_machine, rows
from tests.integration.server.tables import TABLES

from scope_server.store import reader, window
from scope_server.store.blocks import Compaction, move
from scope_server.store.database import Database
from scope_server.store.reader import EventQuery, Filter, Reader

BEGIN = datetime.fromtimestamp((LONG_AGO + FIRST_KTIME_NS) / 1e9, UTC)


@pytest.fixture
async def events(line: Line) -> AsyncIterator[Reader]:
    """Reads the line's database."""
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES.values())
        yield Reader(database)


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _read(line: Line, statement: str, *values: Any) -> dict[str, float]:
    """How many rows a statement takes out of tables of blocks, and out of tables of rows."""
    ((explained,),) = line.query(f"EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {statement}", *values)
    plan = explained if isinstance(explained, list) else json.loads(explained)
    found = {"blocks": 0.0, "events": 0.0}
    for node in _nodes(plan[0]["Plan"]):
        if node.get("Schema") in found:
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            found[node["Schema"]] += (node["Actual Rows"] + removed) * node["Actual Loops"]
    return found


async def _hundreds_of_blocks(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    # A row a millisecond, ten a block.
    monkeypatch.setattr(move, "BLOCK_ROWS", 10)
    run = Run()
    for number in range(3):
        ktimes = [FIRST_KTIME_NS + 10**6 * (1000 * number + n) for n in range(1000)]
        batch = run.batch(number + 1, rows(1000, 1000 * number, ktime_ns=ktimes), boot_to_utc_ns=LONG_AGO)
        await line.send(batch)
    compacted(line)
    assert in_blocks(line) == (300, 3000)


async def test_the_function_reads_what_is_of_its_time(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks of hundreds for a time that they have, as literals, as parameters and against now()."""
    await _hundreds_of_blocks(line, monkeypatch)
    first, last = BEGIN + timedelta(milliseconds=1_015), BEGIN + timedelta(milliseconds=1_025)
    ago = "now() - interval '{} us' - (now() - '{}'::timestamptz - interval '{} us')"
    since, until = (ago.format(7, time, 7) for time in (first, last))
    for query in (
        f"SELECT * FROM scope.syscall('{first}', '{last}')",
        f"SELECT * FROM scope.syscall({since}, {until})",
        f"SELECT count(*) FROM scope.syscall('{first}', '{last}') WHERE comm = 'one'",
    ):
        assert _read(line, query) == {"blocks": 2, "events": 0}
    asked = "SELECT array_agg(arg0 ORDER BY arg0) FROM scope.syscall(%s, %s)"
    assert line.query(asked, first, last) == [(list(range(1015, 1025)),)]
    assert _read(line, asked, first, last) == {"blocks": 2, "events": 0}
    assert line.query("SELECT count(*) FROM scope.syscall(%s)", first) == [(1985,)]
    assert line.query("SELECT count(*) FROM scope.syscall('-infinity')") == [(3000,)]


async def test_what_is_not_asked_for_is_not_unpacked(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of few columns opens no other arrays of a block."""
    await _hundreds_of_blocks(line, monkeypatch)
    plan = "EXPLAIN VERBOSE SELECT sum(arg0) FROM scope.syscall('2020-01-01', '2040-01-01') WHERE pid = 4711"
    said = "\n".join(text for (text,) in line.query(plan))
    opened = set(re.findall(r'array_append\([\w."]+\."?(\w+)"?,', said))
    assert opened >= {"time", "arg0", "process"}
    assert opened.isdisjoint({"ktime_ns", "batch", "ordinal", "tid", "nr", "arg1", "ret", "duration_ns"})


async def test_the_function_shows_what_the_view_does(line: Line) -> None:
    """All rows of the view, wherever they lie, with all its columns."""
    await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO), Run().batch(1, rows(103)))
    compacted(line)
    for part in ("", " WHERE pid = 4711 AND comm = 'one'"):
        both = f"SELECT count(*), md5(string_agg(r::text, '' ORDER BY time, batch, ordinal)) FROM {{}} r{part}"
        assert line.query(both.format("scope.syscall")) == line.query(both.format("scope.syscall('-infinity')"))


QUERIES: list[dict[str, Any]] = [
    {},
    {"pid": 815},
    {"pid": 815, "comm": "comm 2"},
    {"comm": "rare"},
    {"machines": True},
    {"arg0__gte": 117, "arg0__lte": 383},
    {"comm__ne": "comm 1"},
    {"pid": 1},
]


@pytest.mark.parametrize("ascending", [True, False])
async def test_pages_are_the_same(line: Line, events: Reader, ascending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether rows lie in blocks, singly, or some of each: every page, with a cursor from before going on after."""
    monkeypatch.setattr(reader, "_FIRST_WINDOW", 2)
    monkeypatch.setattr(reader, "_WINDOW_GROWTH", 2)
    monkeypatch.setattr(window, "_MOST_LOOKED_UP", 2)
    monkeypatch.setattr(move, "BLOCK_ROWS", 23)
    other = make_machine(line.conninfo, "f" * 32)
    chance, run, others = random.Random(2), Run(), Run()
    for n in range(30):
        length = 30 if n % 7 else 3_000
        ktimes = [FIRST_KTIME_NS + 1000 * (n * 50 + k * length) for k in range(20)]
        comms = ["rare" if chance.random() < 0.02 else f"comm {k % 4}" for k in range(20)]
        columns = rows(20, 20 * n, pid=815 if n % 3 == 0 else 4711, ktime_ns=ktimes, comm=comms)
        whose = {"machine": other} if n % 5 == 4 else {}
        boot = LONG_AGO + (2 * 24 * 3600 * 10**9 if n >= 25 else 0)
        await line.send((others if whose else run).batch(n + 1, columns, boot_to_utc_ns=boot), **whose)

    async def every(query: EventQuery) -> list[Any]:
        found = []
        while True:
            page = await events.page(query)
            found += page.events
            if not page.next:
                return found
            query = replace(query, cursor=page.next)

    def query(filters: dict[str, Any]) -> EventQuery:
        given = [
            Filter(name.partition("__")[0], name.partition("__")[2] or "eq", str(value))
            for name, value in filters.items()
            if name != "machines"
        ]
        machines = [other.key] if "machines" in filters else None
        return EventQuery(TABLES["syscall"], given, machines=machines, ascending=ascending, limit=17)

    begun, before = [], []
    for filters in QUERIES:
        before.append(await every(query(filters)))
        page = await events.page(query(filters))
        begun.append((page.events, replace(query(filters), cursor=page.next) if page.next else None))
    assert [bool(found) for found in before] == [True] * (len(QUERIES) - 1) + [False]
    compacted(line, Compaction(TABLES, closed_after=timedelta(days=1)))
    assert singly(line) > 0
    assert in_blocks(line)[0] > 10
    assert [await every(query(filters)) for filters in QUERIES] == before
    for (first, following), whole in zip(begun, before, strict=True):
        assert first + (await every(following) if following else []) == whole
