"""A filter selects the same rows in PostgreSQL as in plain Python, and reads only blocks that may have them."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.server.records import FIRST_KTIME_NS, STORED, Line, Run, lined, rows
from tests.integration.server.tables import TABLES, asked
from tests.random_filters import SCHEMA, comparisons, every_comparison, random_filter, random_rows

from scope_catalogue.catalogue import streams
from scope_catalogue.shown import Rollup
from scope_catalogue.stream import DescribedStream, Mode, TypedColumn
from scope_catalogue.where import read_filter
from scope_server.store.reading import keys
from scope_server.store.reading.database import Database
from scope_server.store.reading.filters import conditions
from scope_server.store.reading.reader import EventQuery, Order, Reader
from scope_server.store.schema.tables import Tables

PROCESSES = [(None, None), (1, 5), (815, 7), (815, 1 << 40), (4711, (1 << 63) - 1)]
STACKS = ["main;a;b", "main;a", "main;50%", "it's;b", "main"]
_TEXTS = pa.dictionary(pa.int32(), pa.string())
ODD = pa.schema(
    [
        ("ktime_ns", pa.uint64()),
        ("start_ns", pa.uint64()),
        ("pid", pa.uint32()),
        ("number", pa.int32()),
        ("stack", _TEXTS),
        *SCHEMA,
    ]
)


ODD_STREAM = DescribedStream(
    "odd",
    "syscalls",
    Mode.EVENTS,
    "a stream that has columns of every kind",
    tuple(TypedColumn("", name=field.name, type=str(field.type), stack=field.name == "stack") for field in ODD),
    rollup=Rollup(by=()),
)
WITH_ODD = Tables([*streams().values(), ODD_STREAM])
TABLE = WITH_ODD["odd"]


def _odd_rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    found = []
    for number, row in enumerate(random_rows(chance, count)):
        pid, start_ns = chance.choice(PROCESSES)
        its = {"ktime_ns": FIRST_KTIME_NS + 1000 * number, "number": number, "pid": pid, "start_ns": start_ns}
        found.append({**row, **its, "stack": chance.choice([None, *STACKS])})
    return found


@pytest.fixture
async def odd(database: str) -> AsyncIterator[tuple[Reader, list[dict[str, Any]]]]:
    """A reader of a database with odd rows, and the rows."""
    given = _odd_rows(307)
    async with lined(database, tables=WITH_ODD) as line:
        batch = Run().batch(1, pa.RecordBatch.from_pylist(given, schema=ODD), stream="odd")
        (answer,) = await line.send(batch)
        assert answer.verdict == STORED, answer
        async with Database(database, 2, 20) as opened:
            await opened.prepare(WITH_ODD)
            yield Reader(opened), given


async def _found(reader: Reader, where: str) -> list[int]:
    query = EventQuery(TABLE, read_filter(where, TABLE.types), order=Order.ASCENDING, limit=1000)
    return [event["number"] for event in (await reader.page(query)).events]


@pytest.mark.parametrize("most", [5000, 1])
async def test_each_comparison_takes_the_rows_that_it_says(
    odd: tuple[Reader, list[dict[str, Any]]], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operator works with every kind of column, if keys are looked up first and if they are too many for that."""
    monkeypatch.setattr(keys, "_MOST", most)
    reader, given = odd
    odd_ones: dict[str, list[Any]] = {"pid": [815], "start_ns": [7], "stack": STACKS}
    of_keys = [one for column, values in odd_ones.items() for one in comparisons(column, values)]
    for one in [*of_keys, *every_comparison()]:
        assert await _found(reader, one.text) == [row["number"] for row in given if one.takes(row)], one.text


async def test_comparisons_are_joined(odd: tuple[Reader, list[dict[str, Any]]]) -> None:
    """`and`, `or` and `not` of comparisons select the right rows, with nulls and with keys of all kinds."""
    reader, given = odd
    chance = random.Random(3)
    leaves = [
        *every_comparison(),
        *comparisons("pid", [1]),
        *comparisons("start_ns", [1]),
        *comparisons("stack", STACKS),
    ]
    of_pid = comparisons("pid", [1])
    for _ in range(401):
        one = random_filter(chance, leaves if chance.random() < 0.5 else [*of_pid, *chance.sample(leaves, 50)])
        assert await _found(reader, one.text) == [row["number"] for row in given if one.takes(row)], one.text


@pytest.mark.parametrize(
    ("where", "blocks"),
    [
        ("comm = rare", 1),
        ("comm ~ 'r?re'", 1),
        ("comm in (rare, 'comm 1') and ret = 0", 2),
        ("comm = rare or pid = 815", 2),
        ("not (comm != rare and pid != 815)", 2),
        ("comm = rare and pid = 815", 0),
        ("comm = rare and not pid = 815", 1),
        ("comm = rare and start_ns = 500", 1),
        ("comm = nobody", 0),
        ("comm = nobody and ret < 0", 0),
        ("pid = 3 or comm ~ 'no*y'", 0),
        ("pid > 800 and pid < 900", 1),
        ("comm = rare or ret = 0", 11),
        ("comm != rare", 11),
        ("comm is null", 11),
    ],
)
async def test_blocks_that_have_no_such_row_are_skipped(line: Line, where: str, blocks: int) -> None:
    """A filter skips blocks whose names and processes cannot match it."""
    run = Run()
    for number in range(11):
        changed: dict[str, Any] = {"comm": ["rare" if number == 3 else f"comm {number}"] * 7}
        columns = rows(7, 7 * number, pid=815 if number == 5 else 4711, **changed)
        await line.send(run.batch(number + 1, columns))
    async with Database(line.conninfo, 2, 20) as database:
        await database.prepare(TABLES)
        async with database.connection() as connection:
            found = await conditions(connection, asked(where=where))
            text = " AND ".join(condition.as_string(None) for condition in found.blocks) or "true"
    assert line.query(f"SELECT count(*) FROM fresh.syscall WHERE {text}") == [(blocks,)]
