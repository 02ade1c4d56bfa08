"""Days that are over become blocks: each row once, the same as before, whatever comes between."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.closed_days import DAY_NS, LONG_AGO, any_rows, compacted, in_blocks, shown, singly
from tests.integration.server.records import LATER, STORED, Line, Run, lined, rows
from tests.integration.server.tables import TABLES, migrated, with_column

from scope_server.store.blocks import Compaction, compact, compaction, move


@pytest.fixture(params=["by time", "by place"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and steps so small that few rows make many; a partition counts as large, or as small."""
    monkeypatch.setattr(move, "BLOCK_ROWS", 70)
    monkeypatch.setattr(move, "_MOST_RANGES", 2)
    monkeypatch.setattr(compaction, "_STEP_ROWS", 200)
    monkeypatch.setattr(compaction, "_SWEPT_PAGES", 3 if request.param == "by time" else 4096)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stream", sorted(TABLES))
async def test_each_streams_rows_stay_as_they_are(line: Line, stream: str) -> None:
    """Every value of every column comes back: absent ones, not-a-number, lists, texts, names, stacks, large numbers."""
    run = Run()
    batches = [
        run.batch(number, any_rows(stream, 101, number), stream=stream, boot_to_utc_ns=LONG_AGO)
        for number in range(1, 6)
    ]
    assert {answer.verdict for answer in await line.send(*batches)} == {STORED}
    before = shown(line, stream)
    assert len(before) == 505
    compacted(line)
    assert singly(line, stream) == 0
    blocks, in_them = in_blocks(line, stream)
    assert blocks > 1
    assert in_them == 505
    assert shown(line, stream) == before


async def test_a_block_knows_what_it_has(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times, machines, processes and names of a block are those of its rows, which are in order of time."""
    monkeypatch.setattr(move, "BLOCK_ROWS", 100)
    batches = [Run().batch(1, rows(303, 303 * n, pid=n), boot_to_utc_ns=LONG_AGO) for n in range(5)]
    await line.send(*batches)
    compacted(line)
    assert in_blocks(line) == (15, 1515)
    wrong = """
        SELECT count(*) FROM blocks.syscall b,
            LATERAL (SELECT min(t) AS first, max(t) AS last, count(*) AS rows FROM unnest(time) t) u,
            LATERAL (SELECT array_agg(DISTINCT p) AS processes FROM unnest(process) p) v,
            LATERAL (SELECT array_agg(DISTINCT n) AS names FROM unnest(comm || name) n WHERE n IS NOT NULL) w,
            LATERAL (SELECT array_agg(DISTINCT m::bigint) AS machines FROM unnest(machine) m) x
        WHERE (first_time, last_time, row_count) <> (u.first, u.last, u.rows) OR b.processes <> v.processes
           OR b.names <> w.names OR b.machines <> x.machines
           OR time <> (SELECT array_agg(t ORDER BY t) FROM unnest(time) t)"""
    assert line.query(wrong) == [(0,)]
    assert line.query("SELECT count(DISTINCT date_trunc('day', first_time, 'UTC')) FROM blocks.syscall") == [(1,)]


async def test_only_days_that_are_over_become_blocks(line: Line) -> None:
    """A day is left alone until an hour after its end, and its partition goes when all its rows have gone."""
    run = Run()
    await line.send(run.batch(1, rows(101)), run.batch(2, rows(103), boot_to_utc_ns=LONG_AGO))
    partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events.syscall'::regclass"
    ((days,),) = line.query(partitions)
    compacted(line)
    assert (singly(line), in_blocks(line)) == (101, (1, 103))
    assert line.query(partitions) == [(days - 1,)]
    compacted(line, Compaction(TABLES, closed_after=timedelta(days=365)))
    assert singly(line) == 101


async def test_days_can_be_made_into_blocks_at_once(line: Line) -> None:
    """All of the days that are named, whether they are over or not."""
    run = Run()
    await line.send(run.batch(1, rows(101)), run.batch(2, rows(103), boot_to_utc_ns=LONG_AGO))
    ((day,),) = line.query("SELECT (max(time) AT TIME ZONE 'UTC')::date FROM scope.syscall")
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        compact(connection, TABLES, [day])
    assert (singly(line), in_blocks(line)) == (103, (1, 101))


class Interrupted(psycopg.Connection[Any]):
    """Ends at one of its statements."""

    left = 0
    end: Callable[["Interrupted"], None] = staticmethod(psycopg.Connection.close)

    def execute(self, *given: Any, **named: Any) -> psycopg.Cursor[Any]:
        self.left -= 1
        if self.left == 0:
            type(self).end(self)
        return super().execute(*given, **named)


def _kill(connection: psycopg.Connection[Any]) -> None:
    # As kill -9 of the server does; PostgreSQL notices when it next writes or reads.
    connection.close()
    raise psycopg.OperationalError("killed")


def _terminate(connection: psycopg.Connection[Any]) -> None:
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", [_kill, _terminate])
async def test_it_is_interrupted_anywhere(
    line: Line, monkeypatch: pytest.MonkeyPatch, end: Callable[..., None]
) -> None:
    """At each statement that there is; the rows are the same afterwards, and the next attempt goes on from there."""
    monkeypatch.setattr(Interrupted, "end", staticmethod(end))
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n), boot_to_utc_ns=LONG_AGO) for n in range(7)])
    before, statement, went_on = shown(line), 0, set()
    while singly(line):
        statement += 1
        connection = Interrupted.connect(line.conninfo, autocommit=True)
        connection.left = statement
        with pytest.raises(psycopg.OperationalError):  # a new server each time
            work = Compaction(TABLES)
            while work.step(connection):
                pass
            connection.left = 1
            connection.execute("SELECT 1")
        connection.close()
        assert shown(line) == before
        went_on.add(singly(line))
    assert statement > 15
    assert len(went_on) > 1
    compacted(line)
    assert shown(line) == before
    assert in_blocks(line)[1] == 707


@pytest.mark.usefixtures("small")
async def test_late_rows_are_taken_too(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come while their day is being made into blocks, between any two steps, and those after its end."""
    monkeypatch.setattr(compaction, "_AGAIN_S", 0)
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n), boot_to_utc_ns=LONG_AGO) for n in range(7)])
    work, sent = Compaction(TABLES), 7
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        for _ in range(40):
            await asyncio.to_thread(work.step, connection)
            late = run.batch(sent + 1, rows(101, 50 * sent), boot_to_utc_ns=LONG_AGO)
            assert [answer.verdict for answer in await line.send(late)] == [STORED]
            sent += 1
            assert line.query("SELECT count(*), count(DISTINCT (batch, ordinal)) FROM scope.syscall") == [
                (101 * sent, 101 * sent)
            ]
    compacted(line)
    assert (singly(line), in_blocks(line)[1]) == (0, 101 * sent)


async def test_few_small_blocks_are_made_of_late_rows(line: Line) -> None:
    """A day whose rows are in blocks is not looked at again at once: late rows come one batch after the other."""
    run, work = Run(), Compaction(TABLES)
    for number in range(1, 4):
        await line.send(run.batch(number, rows(101), boot_to_utc_ns=LONG_AGO))
        compacted(line, work)
    assert (singly(line), in_blocks(line)) == (202, (1, 101))


@pytest.mark.usefixtures("small")
async def test_writers_go_on(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several write a day while it is made into blocks and dropped again and again: all is stored, and stored once."""
    monkeypatch.setattr(compaction, "_AGAIN_S", 0)
    monkeypatch.setattr(compaction, "_BUSY_S", 0)
    work, done = Compaction(TABLES, closed_after=timedelta(days=-2)), asyncio.Event()
    async with lined(database, lanes=3) as line:

        def steps() -> int:
            taken = 0
            with psycopg.connect(database, autocommit=True) as connection:
                while not done.is_set():
                    taken += work.step(connection)
            return taken

        async def write(run: Run) -> None:
            for number in range(1, 31):
                batch = run.batch(number, rows(101, 50 * number))
                while (answer := (await line.send(batch))[0]).verdict == LATER:  # dropped twice, as nobody does
                    assert "no partition" in answer.reason
                assert answer.verdict == STORED

        stepping = asyncio.create_task(asyncio.to_thread(steps))
        try:
            await asyncio.gather(*(write(Run()) for _ in range(6)))
        finally:
            done.set()
            taken = await stepping
        assert taken > 10
        assert line.query("SELECT count(*), count(DISTINCT (batch, ordinal)) FROM scope.syscall") == [(18180, 18180)]
        assert in_blocks(line)[0] > 1


async def test_somebody_who_reads_is_not_waited_for(line: Line) -> None:
    """A long query keeps the day's partition there, empty; neither it nor others wait, and the partition goes later."""
    await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO))
    before = shown(line)
    with psycopg.connect(line.conninfo) as reader:
        assert reader.execute("SELECT count(*) FROM scope.syscall").fetchone() == (101,)
        async with asyncio.timeout(60):
            await asyncio.to_thread(compacted, line)
        assert reader.execute("SELECT count(*) FROM scope.syscall").fetchone() == (101,)
        assert shown(line) == before
    partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events.syscall'::regclass"
    assert line.query(partitions) == [(1,)]
    compacted(line)
    assert line.query(partitions) == [(0,)]
    assert shown(line) == before


async def test_columns_come_between(database: str) -> None:
    """Rows in blocks have nothing in a column that came later; others have what they were sent with."""
    before = with_column("added", pa.int64())
    async with lined(database) as line:
        await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO))
        compacted(line)
    async with lined(database, tables=before) as line:
        filled = rows(103).append_column("added", pa.array(range(103), pa.int64()))
        late = Run().batch(1, filled, boot_to_utc_ns=LONG_AGO)
        assert [answer.verdict for answer in await line.send(late)] == [STORED]
        asked = "SELECT count(*), count(added), sum(added)::bigint FROM scope.syscall"
        assert line.query(asked) == [(204, 103, 5253)]
        compacted(line)  # by a server that does not know the column
        assert (singly(line), in_blocks(line)[1]) == (0, 204)
        assert line.query(asked) == [(204, 103, 5253)]
    migrated(database, with_column("added", pa.int64()))
    assert line.query(asked) == [(204, 103, 5253)]


@pytest.mark.usefixtures("small")
async def test_rows_that_no_batch_tells_of_are_taken(line: Line) -> None:
    """The catalogue of batches helps to find rows; those that it does not know are found without."""
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n), boot_to_utc_ns=LONG_AGO) for n in range(7)])
    line.query("DELETE FROM store.batches WHERE id % 2 = 0")
    count = "SELECT count(*), count(DISTINCT (batch, ordinal)) FROM scope.syscall"
    compacted(line)
    assert (singly(line), in_blocks(line)[1]) == (0, 707)
    assert line.query(count) == [(707, 707)]


@pytest.mark.usefixtures("small")
async def test_a_day_that_was_dropped_is_let_go(line: Line) -> None:
    """Retention drops a day while it is made into blocks; other days go on."""
    run, earlier = Run(), LONG_AGO - DAY_NS
    await line.send(*[run.batch(n + 1, rows(101, 101 * n), boot_to_utc_ns=earlier) for n in range(7)])
    await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO))
    work = Compaction(TABLES)
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        assert work.step(connection)
        ((day,),) = line.query("SELECT to_char(min(time), 'YYYYMMDD') FROM scope.syscall")
        line.query(f"DROP TABLE events.syscall_{day}, blocks.syscall_{day}")
        while work.step(connection):
            pass
    assert (singly(line), in_blocks(line)[1]) == (0, 101)


async def test_rows_in_blocks_are_small(line: Line) -> None:
    """At most 35 bytes a row of system calls, with indexes and the catalogue of batches."""
    run, sent = Run(), 0
    for number in range(24):
        await line.send(run.batch(number + 1, _system_calls(4_000, number), boot_to_utc_ns=LONG_AGO))
        sent += 4_000
    compacted(line)
    assert in_blocks(line) == (sent // move.BLOCK_ROWS, sent)
    sizes = (
        "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('blocks.syscall') WHERE isleaf",
        "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('store.batches') WHERE isleaf",
    )
    assert sum(line.query(size)[0][0] for size in sizes) / sent < 35


def _system_calls(count: int, seed: int) -> pa.RecordBatch:
    """As a handful of processes make them: few calls, by few threads, with arguments that come again."""
    chance = np.random.default_rng(seed)
    # A thread goes on for a while, and makes the same calls again and again.
    thread = np.repeat(chance.integers(0, 24, count // 20), 20)
    call = np.repeat(chance.zipf(1.5, count // 4) % 30, 4)
    buffer = 0x7F00_0000_0000 + (thread << 20) + call * 4096
    size = np.array([8, 16, 512, 4096, 65536])[call % 5]
    columns = {
        "ktime_ns": 10**9 + seed * 2 * 10**9 + np.cumsum(chance.exponential(500_000, count)).astype(np.int64),
        "start_ns": (thread // 4 + 1) * 10**9 + 123_456,
        "cgroup_id": 7000 + thread // 8,
        "pid": 1000 + thread // 4,
        "tid": 1000 + thread,
        "uid": np.full(count, 1000),
        "cpu": chance.integers(0, 16, count),
        "comm": np.array([f"worker {n}" for n in range(6)])[thread // 4],
        "name": np.array([f"call_{n}" for n in range(30)])[call],
        "nr": call,
        "arg0": 3 + thread % 5 + call,
        "arg1": buffer,
        "arg2": size,
        **{f"arg{n}": np.where(call > 20, n, 0) for n in range(3, 6)},
        "ret": np.where(chance.random(count) < 0.05, -11, np.where(call % 3, 0, size)),
        "duration_ns": (300 * chance.lognormal(1, 1.5, count)).astype(np.int64),
    }
    values = {name: column.tolist() for name, column in columns.items()}
    return pa.RecordBatch.from_pydict(values, schema=TABLES["syscall"].schema)
