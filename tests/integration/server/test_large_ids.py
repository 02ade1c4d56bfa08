"""Ids of texts, processes and batches have 64 bits in every table and array."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.server.closed_days import LONG_AGO, compacted, fresh, packed
from tests.integration.server.records import FIRST_KTIME_NS, STORED, Line, Run, rows
from tests.integration.server.states import told
from tests.integration.server.tables import TABLES, asked
from tests.integration.server.test_rollups import merge, same

from scope_server.store.latest.reader import States
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import Order, Reader

BEYOND = 1 << 33
SEQUENCES = ("store.processes_id_seq", "store.text_ids", "store.frames_id_seq", "store.batch_ids")
BEGIN = datetime.fromtimestamp((LONG_AGO + FIRST_KTIME_NS) / 1e9, UTC)


@pytest.fixture
async def database_of(line: Line) -> AsyncIterator[Database]:
    """Queries of the line's database, whose ids start above 2**33."""
    for sequence in SEQUENCES:
        line.query(f"SELECT setval('{sequence}', {BEYOND})")
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES)
        yield database


async def _answers(database: Database) -> list[Any]:
    """The answers to queries by process, name and stack, and of the latest states."""
    reader = Reader(database)

    questions = [("syscall", "pid = 815"), ("syscall", "comm = b"), ("syscall", "comm ~ 'b*'")]
    questions += [("cuda_live", "pid = 815"), ("cuda_live", "comm = b"), ("cuda_live", "stack ~ '*;b'")]
    pages = [await reader.page(asked(stream, where, order=Order.ASCENDING)) for stream, where in questions]
    events = [page.events for page in pages]
    assert [len(each) for each in events] == [7, 7, 7, 3, 3, 3]
    held = await States(database).largest(TABLES["cuda_live"], since=BEGIN - timedelta(days=1), limit=9)
    assert [(row["pid"], row["stack"], row["live_bytes"]) for row in held] == [(815, "main;b", 1003)]
    return [*events, held]


async def test_ids_beyond_32_bits_are_ids(line: Line, database_of: Database) -> None:
    """Rows with ids above 32 bits are stored, found, added up, merged and packed, with the same answers afterwards."""
    run = Run()
    counts = {"live_bytes": [1001, 1002, 1003], "live_count": [1, 2, 3]}
    states = told("cuda_live", 3, pid=[815] * 3, comm=["b"] * 3, stack=["main;b"] * 3, **counts)
    sent = [
        run.batch(1, rows(101), boot_to_utc_ns=LONG_AGO),
        run.batch(2, rows(7, 101, pid=815, comm=["b"] * 7), boot_to_utc_ns=LONG_AGO),
        run.batch(1, states, stream="cuda_live", boot_to_utc_ns=LONG_AGO),
    ]
    assert [answer.verdict for answer in await line.send(*sent)] == [STORED] * 3
    for table in ("names", "stacks", "frames", "processes", "batches"):
        assert line.query(f"SELECT min(id) > {BEYOND} FROM store.{table}") == [(True,)]
    before = await _answers(database_of)
    assert same(line) == 108
    assert merge(line) > 0
    compacted(line)
    assert (fresh(line), packed(line)[1], packed(line, "cuda_live")[1]) == ((0, 0), 108, 3)
    assert await _answers(database_of) == before
    assert same(line) == 108
    of_stack = "SELECT count(*) FROM scope.cuda_live WHERE stack = 'main;b' AND task_id = %s"
    assert line.query(of_stack, run.task_id) == [(3,)]
