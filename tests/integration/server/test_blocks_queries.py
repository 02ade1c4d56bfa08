"""Queries find the same rows in fresh and packed blocks: the view, the function with a time range, and pages."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from tests.integration.server.closed_days import DAY_NS, LONG_AGO, compacted, fresh, packed
from tests.integration.server.records import FIRST_KTIME_NS, Line, Run, make_machine, rows
from tests.integration.server.tables import TABLES, asked

from scope_server.machine import Machine
from scope_server.store.layout.blocks import compaction, packing
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.blocks.compaction import Compaction
from scope_server.store.layout.contract import Lookup
from scope_server.store.reading import reader, window
from scope_server.store.reading.database import Database
from scope_server.store.reading.filters import conditions
from scope_server.store.reading.reader import EventQuery, Order, Reader
from scope_server.store.reading.selection import Selection
from scope_server.store.writing.connection import WriterConnection

BEGIN = datetime.fromtimestamp((LONG_AGO + FIRST_KTIME_NS) / 1e9, UTC)


@pytest.fixture
async def events(line: Line) -> AsyncIterator[Reader]:
    """A reader of the line's database."""
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES)
        yield Reader(database)


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _read(line: Line, statement: str, *values: Any) -> dict[str, float]:
    """The number of blocks that a statement reads, by kind, and of tables that it reads."""
    ((explained,),) = line.query(f"EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {statement}", *values)
    plan = explained if isinstance(explained, list) else json.loads(explained)
    found = {"fresh": 0.0, "packed": 0.0, "tables": 0.0}
    for node in _nodes(plan[0]["Plan"]):
        if node.get("Schema") in ("fresh", "packed") and node["Actual Loops"]:
            found[node["Schema"]] += node["Actual Rows"] * node["Actual Loops"]
            found["tables"] += 1
    return found


async def _hundreds_of_blocks(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    # One row per millisecond, ten rows per block.
    monkeypatch.setattr(packing, "BLOCK_ROWS", 10)
    run = Run()
    for number in range(3):
        ktimes = [FIRST_KTIME_NS + 10**6 * (1000 * number + n) for n in range(1000)]
        batch = run.batch(number + 1, rows(1000, 1000 * number, ktime_ns=ktimes), boot_to_utc_ns=LONG_AGO)
        await line.send(batch)
    assert fresh(line) == (300, 3000)


@pytest.mark.parametrize("kind", ["fresh", "packed"])
async def test_the_function_reads_what_is_of_its_time(line: Line, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of a time range reads only the blocks in the range; with literals, parameters and now()."""
    await _hundreds_of_blocks(line, monkeypatch)
    if kind == "packed":
        compacted(line)
        assert (fresh(line), packed(line)) == ((0, 0), (300, 3000))
    two = {"fresh": 0, "packed": 0, "tables": 1 if kind == "fresh" else 2, kind: 2}
    first, last = BEGIN + timedelta(milliseconds=1_015), BEGIN + timedelta(milliseconds=1_025)
    ago = "now() - interval '{} us' - (now() - '{}'::timestamptz - interval '{} us')"
    since, until = (ago.format(7, time, 7) for time in (first, last))
    for query in (
        f"SELECT * FROM scope.syscall('{first}', '{last}')",
        f"SELECT * FROM scope.syscall({since}, {until})",
        f"SELECT count(*) FROM scope.syscall('{first}', '{last}') WHERE comm = 'one'",
    ):
        assert _read(line, query) == two
    asked = "SELECT array_agg(arg0 ORDER BY arg0) FROM scope.syscall(%s, %s)"
    assert line.query(asked, first, last) == [(list(range(1015, 1025)),)]
    assert _read(line, asked, first, last) == two
    assert line.query("SELECT count(*) FROM scope.syscall(%s)", first) == [(1985,)]
    assert line.query("SELECT count(*) FROM scope.syscall('-infinity')") == [(3000,)]


async def test_the_function_looks_at_no_other_days(line: Line) -> None:
    """A query skips partitions of other days, except those of the day before, whose blocks may reach into the range."""
    run = Run()
    for days in range(5):
        await line.send(run.batch(days + 1, rows(101), boot_to_utc_ns=LONG_AGO - days * DAY_NS))
    compacted(line)
    for since in (f"'{BEGIN}'::timestamptz", f"now() - (now() - '{BEGIN}'::timestamptz)"):
        read = _read(line, f"SELECT * FROM scope.syscall({since}, {since} + interval '1 s')")
        assert (read["fresh"], read["packed"]) == (0, 1)
        assert read["tables"] <= 4


@pytest.mark.parametrize("hour", [0, 1, 22, 23])
async def test_a_block_may_last_all_day(line: Line, events: Reader, hour: int) -> None:
    """A query of one hour finds its rows in a block of a whole day."""
    midnight = LONG_AGO // DAY_NS * DAY_NS
    ktimes = [FIRST_KTIME_NS + n * DAY_NS // 96 for n in range(96)]  # a row every quarter of an hour
    batch = Run().batch(1, rows(96, ktime_ns=ktimes), boot_to_utc_ns=midnight - FIRST_KTIME_NS)
    await line.send(batch)
    compacted(line)
    assert packed(line) == (1, 96)
    since = datetime.fromtimestamp(midnight / 1e9, UTC) + timedelta(hours=hour)
    until, wanted = since + timedelta(hours=1), list(range(4 * hour, 4 * hour + 4))
    asked = "SELECT array_agg(arg0 ORDER BY time) FROM scope.syscall(%s, %s)"
    assert line.query(asked, since, until) == [(wanted,)]
    page = await events.page(EventQuery(TABLES["syscall"], since=since, until=until, order=Order.ASCENDING))
    assert [event["arg0"] for event in page.events] == wanted


async def test_what_is_not_asked_for_is_not_unpacked(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query unpacks only the arrays of the columns that it names."""
    await _hundreds_of_blocks(line, monkeypatch)
    compacted(line)
    plan = "EXPLAIN VERBOSE SELECT sum(arg0) FROM scope.syscall('2020-01-01', '2040-01-01') WHERE pid = 4711"
    said = "\n".join(text for (text,) in line.query(plan))
    opened = set(re.findall(r'array_append\([\w."]+\."?(\w+)"?,', said))
    assert opened >= {"time", "arg0", "process"}
    assert opened.isdisjoint({"ktime_ns", "batch", "ordinal", "tid", "nr", "arg1", "ret", "duration_ns"})
    table = TABLES["syscall"]
    two = BLOCKS.rows("syscall", table.records, [sql.SQL("r.ret < 0")], only=("comm", "tid"))
    with psycopg.connect(line.conninfo) as connection:
        ((found,),) = connection.execute(sql.SQL("EXPLAIN (VERBOSE, FORMAT JSON) {}").format(two)).fetchall()
    widths = [len(node["Output"]) for node in _nodes(found[0]["Plan"]) if node["Node Type"] == "Nested Loop"]
    assert set(widths) == {2}, "no value is copied for a column that is not selected"


async def test_rows_in_the_hash_table_of_a_join_have_no_whole_arrays(line: Line) -> None:
    """Where PostgreSQL expects few rows that meet a lookup, it puts them into a hash table; each is small there."""
    await line.send(Run().batch(1, rows(1000), boot_to_utc_ns=LONG_AGO))
    few = [sql.SQL(f"{column} * 0 = 0") for column in ("nr", "arg5", "tid", "uid")]  # as PostgreSQL expects
    lookup = Lookup([sql.SQL("NOT EXISTS (SELECT FROM generate_series(1, 100000, 2) AS n WHERE n = r.arg0)")])
    query = BLOCKS.rows("syscall", TABLES["syscall"].records, [sql.SQL("ret <= 0"), *few, lookup], only=("arg0", "tid"))
    with psycopg.connect(line.conninfo) as connection:
        found = connection.execute(sql.SQL("SELECT arg0 FROM ({}) AS r").format(query)).fetchall()
        ((plan,),) = connection.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) {}").format(query)).fetchall()
    assert sorted(found) == [(n,) for n in range(0, 1000, 2) if n % 7 != 6]
    (hashed,) = (node for node in _nodes(plan[0]["Plan"]) if node["Node Type"] == "Hash" and node["Actual Loops"])
    assert hashed["Actual Rows"] == sum(n % 7 != 6 for n in range(1000)), plan
    assert hashed["Peak Memory Usage"] < 200, "KiB; an array has 8"


async def test_blocks_are_unpacked_once_for_all_batches_of_a_task(line: Line) -> None:
    """However few rows PostgreSQL expects, it does not read them again for each batch, nor the batches for each row."""
    own, other = Run(), Run()
    for number in range(5):
        await line.send(own.batch(number + 1, rows(20, 20 * number)), other.batch(number + 1, rows(20)))
    ((task,),) = line.query("SELECT task FROM store.runs WHERE run_id = %s", own.run_id)
    table = TABLES["syscall"]
    async with await psycopg.AsyncConnection.connect(line.conninfo, row_factory=dict_row) as connection:
        where = await conditions(connection, Selection(table, task=task))
        query = BLOCKS.rows("syscall", table.records, where.rows, only=("arg0",))
        await connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        found = await (await connection.execute(query)).fetchall()
        (explained,) = await (
            await connection.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) {}").format(query))
        ).fetchall()
    assert sorted(row["arg0"] for row in found) == list(range(100))
    plan = explained["QUERY PLAN"][0]["Plan"]
    read = {node["Relation Name"]: node["Actual Loops"] for node in _nodes(plan) if "Relation Name" in node}
    assert {name.partition("_")[0] for name in read} == {"batches", "runs", "syscall"}
    assert {*read.values()} == {1}, plan


async def test_the_function_shows_what_the_view_does(line: Line) -> None:
    """The function returns the same rows and columns as the view, from fresh and packed blocks."""
    await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO), Run().batch(1, rows(103)))
    compacted(line)
    assert (fresh(line)[1], packed(line)[1]) == (103, 101)
    for part in ("", " WHERE pid = 4711 AND comm = 'one'"):
        both = f"SELECT count(*), md5(string_agg(r::text, '' ORDER BY time, batch, ordinal)) FROM {{}} r{part}"
        assert line.query(both.format("scope.syscall")) == line.query(both.format("scope.syscall('-infinity')"))


QUERIES = [
    "",
    "pid = 815",
    "pid = 815 and comm = 'comm 2'",
    "comm = rare",
    "comm ~ 'r*e' or arg0 < 7 and pid != 815",
    "pid in (815, 3) or comm = 'comm 1'",
    "machines",
    "arg0 >= 117 and arg0 <= 383",
    "comm != 'comm 1'",
    "pid = 1",
]


async def _thirty_batches(line: Line) -> Machine:
    """Stores 30 batches with overlapping times, of two machines, pids and days; returns the second machine."""
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
    return other


@pytest.mark.parametrize("ascending", [True, False])
async def test_pages_are_the_same(line: Line, events: Reader, ascending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages return the same rows before compaction, after it, and if blocks are packed between pages."""
    monkeypatch.setattr(reader, "_FIRST_WINDOW", 2)
    monkeypatch.setattr(reader, "_WINDOW_GROWTH", 2)
    monkeypatch.setattr(packing, "BLOCK_ROWS", 23)
    monkeypatch.setattr(compaction, "STEP_ROWS", 60)
    other = await _thirty_batches(line)
    connection, work = WriterConnection(line.conninfo), Compaction(["syscall"])

    async def every(query: EventQuery, packs: bool = False) -> list[Any]:
        found = []
        while True:
            page = await events.page(query)
            found += page.events
            if not page.next:
                return found
            query = replace(query, cursor=page.next)
            if packs:
                work.step(connection, everything=True)

    def query(where: str) -> EventQuery:
        order = Order.ASCENDING if ascending else Order.DESCENDING
        if where == "machines":
            return asked(machines=[other.key], order=order, limit=17)
        return asked(where=where, order=order, limit=17)

    before = [await every(query(where)) for where in QUERIES]
    assert [bool(found) for found in before] == [True] * (len(QUERIES) - 1) + [False]
    assert packed(line) == (0, 0)
    ordered = sorted(before[0], key=lambda event: (event["time"], event["ktime_ns"]), reverse=not ascending)
    assert [event["time"] for event in before[0]] == [event["time"] for event in ordered]
    assert sorted(event["arg0"] for event in before[0]) == list(range(600))
    assert [await every(query(where), packs=True) for where in QUERIES] == before
    while work.step(connection, everything=True):
        pass
    connection.close()
    assert (fresh(line)[1], packed(line)[1]) == (0, 600)
    assert packed(line)[0] > 10
    assert [await every(query(where)) for where in QUERIES] == before


async def test_pages_are_whole_while_all_is_packed(line: Line, events: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are complete and without duplicates, even if blocks are packed between finding and reading them."""
    monkeypatch.setattr(packing, "BLOCK_ROWS", 23)
    monkeypatch.setattr(compaction, "STEP_ROWS", 60)
    monkeypatch.setattr(reader, "_FIRST_WINDOW", 2)
    await _thirty_batches(line)
    connection, work = WriterConnection(line.conninfo), Compaction(["syscall"])
    looks: list[bool] = []

    async def look_and_pack(*given: Any) -> Any:
        found = await window.look(*given)
        looks.append(await asyncio.to_thread(work.step, connection, True))
        return found

    monkeypatch.setattr(reader, "look", look_and_pack)
    seen, query = [], EventQuery(TABLES["syscall"], limit=40)
    while True:
        page = await events.page(query)
        seen += [event["arg0"] for event in page.events]
        if not page.next:
            break
        query = replace(query, cursor=page.next)
    connection.close()
    assert sum(looks) > 5
    assert len(seen) == 600
    assert sorted(seen) == list(range(600))
