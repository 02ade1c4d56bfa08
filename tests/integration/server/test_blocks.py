"""Compaction: fresh blocks become large packed blocks of few bytes, with each row unchanged and once."""

import statistics
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.closed_days import DAY_NS, LONG_AGO, any_rows, compacted, fresh, packed, shown
from tests.integration.server.records import FIRST_KTIME_NS, STORED, Line, Run, lined, rows
from tests.integration.server.tables import TABLES, migrated, with_column
from tests.integration.server.test_rollups import merge

from scope_server.store.layout.blocks import compaction, packing
from scope_server.store.layout.blocks.compaction import Compaction
from scope_server.store.layout.blocks.packing import BLOCK_ROWS
from scope_server.store.schema.columns import Kind

HOUR_NS = DAY_NS // 24
SIZE = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('fresh.syscall')"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks and steps so small that few rows need many of them."""
    monkeypatch.setattr(packing, "BLOCK_ROWS", 70)
    monkeypatch.setattr(compaction, "STEP_ROWS", 200)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stream", sorted(TABLES))
async def test_each_streams_rows_stay_as_they_are(line: Line, stream: str) -> None:
    """Compaction changes no value of any column: absent, not-a-number, lists, texts, names, stacks, large numbers."""
    run = Run()
    sent = [any_rows(stream, 101, number) for number in range(1, 6)]
    batches = [
        run.batch(number, columns, stream=stream, boot_to_utc_ns=LONG_AGO) for number, columns in enumerate(sent, 1)
    ]
    assert {answer.verdict for answer in await line.send(*batches)} == {STORED}
    before = shown(line, stream)
    assert len(before) == 505
    assert fresh(line, stream)[1] == 505
    _are_as_sent(line, stream, sent)
    compacted(line)
    assert fresh(line, stream) == (0, 0)
    blocks, in_them = packed(line, stream)
    assert blocks > 1
    assert in_them == 505
    assert shown(line, stream) == before


def _are_as_sent(line: Line, stream: str, sent: list[pa.RecordBatch]) -> None:
    for column in TABLES[stream].columns:
        asked = f'SELECT e."{column.name}" FROM scope.{stream} e JOIN store.batches b ON b.id = e.batch'
        found = [value for (value,) in line.query(f"{asked} ORDER BY b.sequence, e.ordinal")]
        wanted = [value for columns in sent for value in columns.column(column.name).to_pylist()]
        if column.kind in (Kind.UNSIGNED, Kind.UNSIGNED_LIST):
            found, wanted = ([_bits(value) for value in values] for values in (found, wanted))
        assert list(map(repr, found)) == list(map(repr, wanted)), column.name


def _bits(value: Any) -> Any:
    # As unsigned 64 bits: a bigint stores them as signed.
    if isinstance(value, list):
        return [_bits(one) for one in value]
    return None if value is None else value % (1 << 64)


async def test_a_block_knows_what_it_has(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block lists the times, machines, processes and names of its rows, and has its rows in order of time."""
    monkeypatch.setattr(packing, "BLOCK_ROWS", 100)
    batches = [Run().batch(1, rows(303, 303 * n, pid=n), boot_to_utc_ns=LONG_AGO) for n in range(5)]
    wrong = """
        SELECT count(*) FROM {}.syscall b,
            LATERAL (SELECT min(t) AS first, max(t) AS last, count(*) AS rows FROM unnest(time) t) u,
            LATERAL (SELECT array_agg(DISTINCT p) AS processes FROM unnest(process) p) v,
            LATERAL (SELECT array_agg(DISTINCT n) AS names FROM unnest(comm || name) n WHERE n IS NOT NULL) w,
            LATERAL (SELECT array_agg(DISTINCT m::bigint) AS machines FROM unnest(machine) m) x
        WHERE (first_time, last_time, row_count) <> (u.first, u.last, u.rows) OR b.processes <> v.processes
           OR b.names <> w.names OR b.machines <> x.machines
           OR time <> (SELECT array_agg(t ORDER BY t) FROM unnest(time) t)"""
    await line.send(*batches)
    assert fresh(line)[1] == 1515
    assert line.query(wrong.format("fresh")) == [(0,)]
    compacted(line)
    assert packed(line) == (15, 1515)
    assert line.query(wrong.format("packed")) == [(0,)]


async def test_blocks_are_large_and_of_one_span(line: Line) -> None:
    """A packed block has 8,192 rows or more if its day has; a fresh block is of one hour, a packed one of one day."""
    # Four hours before and after a midnight, half a second between two rows.
    midnight = (LONG_AGO // DAY_NS) * DAY_NS
    run, count = Run(), 57_600
    for number in range(4):
        ktimes = [FIRST_KTIME_NS + (4 * n + number) * HOUR_NS // 7_200 for n in range(count // 4)]
        columns = rows(len(ktimes), ktime_ns=ktimes)
        await line.send(run.batch(number + 1, columns, boot_to_utc_ns=midnight - 4 * HOUR_NS - FIRST_KTIME_NS))
    spans = "SELECT count(*) FROM {0}.syscall WHERE date_trunc('{1}', first_time) <> date_trunc('{1}', last_time)"
    assert fresh(line)[1] == 57_600
    assert line.query(spans.format("fresh", "hour")) == [(0,)]
    compacted(line)
    assert (fresh(line)[1], packed(line)) == (0, (6, 57_600))
    assert line.query("SELECT min(row_count), max(row_count) FROM packed.syscall") == [(9_600, 9_600)]
    assert line.query(spans.format("packed", "day")) == [(0,)]
    assert line.query(spans.format("packed", "hour"))[0][0] > 0
    assert BLOCK_ROWS <= 9_600 < 2 * BLOCK_ROWS


async def test_a_day_in_progress_is_packed_by_and_by(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day in progress is packed once it has enough rows for large blocks; rows of the last minutes wait."""
    monkeypatch.setattr(compaction, "STEP_ROWS", 200)
    run, just_now = Run(), time.time_ns() // 1000 * 1000 - FIRST_KTIME_NS
    await line.send(run.batch(1, rows(103)))
    compacted(line)
    assert (fresh(line)[1], packed(line)) == (103, (0, 0))
    await line.send(run.batch(2, rows(211, 103), boot_to_utc_ns=just_now))
    compacted(line)
    assert packed(line) == (0, 0)
    await line.send(run.batch(3, rows(107, 314)))
    compacted(line)
    assert (fresh(line)[1], packed(line)) == (211, (1, 210))
    monkeypatch.setattr(compaction, "_SETTLED_S", -1)
    compacted(line)
    assert (fresh(line)[1], packed(line)[1]) == (0, 421)


@pytest.mark.usefixtures("small")
async def test_a_day_is_packed_to_its_last_row_when_it_is_closed(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed day is packed to its last row, also if the last block is small and in as many steps as needed."""
    run = Run()
    for number in range(7):
        await line.send(run.batch(number + 1, rows(101, 101 * number), boot_to_utc_ns=LONG_AGO))
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "_CLOSED_S", 4 * 24 * 3600)
        compacted(line)
        assert 0 < fresh(line)[1] < 200
    late = run.batch(8, rows(503, 707), boot_to_utc_ns=LONG_AGO)
    await line.send(late)
    compacted(line)
    assert (fresh(line), packed(line)[1]) == ((0, 0), 1210)


async def test_everything_can_be_packed_at_once(line: Line) -> None:
    """`everything` packs all fresh blocks: of any day, of any size, and at once."""
    run = Run()
    just_now = time.time_ns() // 1000 * 1000 - FIRST_KTIME_NS
    await line.send(run.batch(1, rows(101), boot_to_utc_ns=just_now), run.batch(2, rows(103), boot_to_utc_ns=LONG_AGO))
    compacted(line, everything=True)
    assert (fresh(line), packed(line)) == ((0, 0), (2, 204))


async def test_few_small_blocks_are_made_of_late_rows(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late rows of a packed day wait for an hour, or until they are enough for a step, to make fewer small blocks."""
    run, work = Run(), Compaction(TABLES)
    for number in range(1, 4):
        await line.send(run.batch(number, rows(101), boot_to_utc_ns=LONG_AGO))
        compacted(line, work)
    assert (fresh(line)[1], packed(line)) == (202, (1, 101))
    monkeypatch.setattr(compaction, "STEP_ROWS", 202)
    compacted(line, work)  # enough for a block of their own
    assert (fresh(line)[1], packed(line)) == (0, (2, 303))
    await line.send(run.batch(4, rows(101), boot_to_utc_ns=LONG_AGO))
    now = time.monotonic()
    monkeypatch.setattr(compaction, "time", SimpleNamespace(monotonic=lambda: now + 3500))
    compacted(line, work)
    assert fresh(line)[1] == 101
    monkeypatch.setattr(compaction, "time", SimpleNamespace(monotonic=lambda: now + 3700))
    compacted(line, work)
    assert (fresh(line)[1], packed(line)) == (0, (3, 404))


@pytest.mark.usefixtures("small")
async def test_late_rows_make_no_day_wait_for_another(line: Line) -> None:
    """While late rows of one day wait, the rows of other days are packed."""
    run, work = Run(), Compaction(TABLES)
    await line.send(run.batch(1, rows(101), boot_to_utc_ns=LONG_AGO - DAY_NS))
    compacted(line, work)
    await line.send(run.batch(2, rows(101), boot_to_utc_ns=LONG_AGO - DAY_NS))
    await line.send(run.batch(3, rows(103), boot_to_utc_ns=LONG_AGO))
    compacted(line, work)
    assert (fresh(line)[1], packed(line)[1]) == (101, 204)


async def test_somebody_who_reads_is_not_waited_for(line: Line) -> None:
    """An open transaction that has read rows does not delay compaction, and its snapshot does not change."""
    await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO))
    before = shown(line)
    with psycopg.connect(line.conninfo) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert reader.execute("SELECT count(*) FROM scope.syscall").fetchone() == (101,)
        compacted(line)
        assert (fresh(line), packed(line)) == ((0, 0), (1, 101))
        assert reader.execute("SELECT count(*) FROM scope.syscall").fetchone() == (101,)
    assert shown(line) == before


@pytest.mark.parametrize("when", ["before", "between", "after"])
async def test_columns_come_later(database: str, when: str) -> None:
    """A new column is absent in older rows and kept in newer ones, also if both are packed into one block."""
    added = with_column("added", pa.list_(pa.string()))
    asked = "SELECT count(*), count(added), string_agg(added::text, ' ' ORDER BY ordinal) FROM scope.syscall"
    wanted = (204, 103, " ".join(f'{{{n},NULL,"a \\"b\\""}}' for n in range(103)))
    async with lined(database) as line:
        await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO))
        if when == "before":
            compacted(line)
    async with lined(database, tables=added) as line:
        if when == "between":
            compacted(line)
        values = pa.array([[str(n), None, 'a "b"'] for n in range(103)], pa.list_(pa.string()))
        late = Run().batch(1, rows(103).append_column("added", values), boot_to_utc_ns=LONG_AGO)
        assert [answer.verdict for answer in await line.send(late)] == [STORED]
        assert line.query(asked) == [wanted]
        compacted(line)  # like a server that does not know the column
        assert (fresh(line)[1], packed(line)[1]) == (0, 204)
        assert line.query(asked) == [wanted]
    migrated(database, added)
    assert line.query(asked) == [wanted]


async def test_room_of_packed_blocks_is_used_again(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh tables do not grow, however many rows are written and packed.

    A vacuum keeps rows that a snapshot still sees (the server's own analyze takes one), so one round may take twice
    as much; the test compares the median.
    """
    monkeypatch.setattr(compaction, "_VACUUM_ROWS", 1)
    run, sizes = Run(), []
    for sequence in range(1, 7):
        await line.send(run.batch(sequence, _system_calls(20_000, sequence)))
        ((size,),) = line.query(SIZE)
        sizes.append(size)
        compacted(line, everything=True)
    assert statistics.median(sizes) < 1.5 * sizes[0]


async def test_rows_in_blocks_are_small(line: Line) -> None:
    """A system call takes under 35 bytes, including indexes, the catalogue, rollups, names and processes."""
    run, sent = Run(), 0
    for number in range(24):
        await line.send(run.batch(number + 1, _system_calls(4_000, number), boot_to_utc_ns=LONG_AGO))
        sent += 4_000
    compacted(line)
    merge(line)
    assert packed(line) == (sent // BLOCK_ROWS, sent)
    line.query("VACUUM fresh.syscall")  # as autovacuum does
    line.query("VACUUM rollups.syscall")
    tables = ("fresh.syscall", "packed.syscall", "rollups.syscall", "store.batches", "store.names", "store.processes")
    size = """
        SELECT pg_total_relation_size('{0}') + coalesce(sum(pg_total_relation_size(relid)), 0)::bigint
        FROM pg_partition_tree('{0}') WHERE isleaf AND level > 0"""
    sizes = {table: line.query(size.format(table))[0][0] / sent for table in tables}
    assert sum(sizes.values()) < 35, sizes


def _system_calls(count: int, seed: int) -> pa.RecordBatch:
    """System calls like those of six processes: few different calls and threads, and repeated arguments."""
    chance = np.random.default_rng(seed)
    # A thread makes 20 calls in a row, and repeats each call 4 times.
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
    values: dict[str, list[Any]] = {name: column.tolist() for name, column in columns.items()}
    failed = [number < 0 for number in values["ret"]]
    values |= {"waited": (call > 27).astype(int).tolist(), "error": ["EAGAIN" if one else None for one in failed]}
    values |= dict.fromkeys(("args", "result", "path"), [None] * count)
    return pa.RecordBatch.from_pydict(values, schema=TABLES["syscall"].schema)
