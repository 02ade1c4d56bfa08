"""Rollups equal the totals of the rows exactly, merged or not, also with late, resent or refused records."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from tests.integration.server.records import (
    BOOT_TO_UTC_NS,
    FIRST_KTIME_NS,
    Line,
    Run,
    make_machine,
    rows,
)

from scope_bpf.probes import probe_named
from scope_catalogue.catalogue import streams
from scope_server.errors import StoreUnavailable
from scope_server.store.reading.selection import Selection
from scope_server.store.rollups.merge import Merger
from scope_server.store.schema.migrate import migrations
from scope_server.store.schema.tables import Tables
from scope_server.store.totals.cells import read_cells
from scope_server.store.totals.of_rollups import HASHED, SETTINGS, distribution, ranking
from scope_server.store.totals.question import asked
from scope_server.store.writing.connection import WriterConnection

MINUTE_NS = 60 * 10**9
EVER = "'-infinity', 'infinity'"
_LARGEST = (1 << 63) - 1
_FIRST = datetime.fromtimestamp((FIRST_KTIME_NS + BOOT_TO_UTC_NS) // 10**9, UTC)

# A value of 2**63 or more is stored as negative, and counts as 2**63 - 1.
VALUE = f"CASE WHEN duration_ns < 0 THEN {_LARGEST} ELSE duration_ns END"
BY_MINUTE = "date_trunc('minute', time, 'UTC'), machine_id, comm, name"
OF_ROWS = f"""
SELECT {BY_MINUTE}, count(*), least(sum({VALUE}), {_LARGEST})::bigint, count(*) FILTER (WHERE ret < 0)
FROM scope.syscall GROUP BY 1, 2, 3, 4"""
ADDED_UP = """
SELECT minute, machine_id, comm, name, sum(count)::bigint, least(sum(sum), 9223372036854775807)::bigint,
       sum(failed)::bigint
FROM scope.syscall_minutes('-infinity') GROUP BY 1, 2, 3, 4"""
BUCKETS_OF_ROWS = f"""
SELECT {BY_MINUTE}, 1::bigint << (64 - position(B'1' IN greatest({VALUE}, 1)::bit(64))), count(*)
FROM scope.syscall WHERE duration_ns IS NOT NULL GROUP BY 1, 2, 3, 4, 5"""
BUCKETS = """
SELECT minute, machine_id, comm, name, at_least, sum(count)::bigint
FROM scope.syscall_histogram('-infinity') GROUP BY 1, 2, 3, 4, 5"""
SECONDS_OF_ROWS = "SELECT date_trunc('second', time), machine_id, count(*) FROM scope.syscall GROUP BY 1, 2"
SECONDS = """
SELECT second, machine_id, sum(count)::bigint FROM scope.syscall_seconds('-infinity') GROUP BY 1, 2"""
HOURS_OF_ROWS = "SELECT date_trunc('hour', time, 'UTC'), name, count(*) FROM scope.syscall GROUP BY 1, 2"
HOURS = "SELECT hour, name, sum(count)::bigint FROM scope.syscall_hours('-infinity') GROUP BY 1, 2"
OF_MINUTES = """
SELECT comm, name, sum(count)::bigint, least(sum(sum), 9223372036854775807)::bigint, sum(failed)::bigint
FROM scope.syscall_minutes({window}) WHERE {chosen} GROUP BY 1, 2"""
OF_TOTALS = "SELECT comm, name, count, sum, failed FROM scope.syscall_totals({window}, {given})"
OF_MINUTES_IN_STEPS = """
SELECT date_bin({step}, minute, 'epoch'), comm, name, sum(count)::bigint,
       least(sum(sum), 9223372036854775807)::bigint, sum(failed)::bigint
FROM scope.syscall_minutes({window}) WHERE {chosen} GROUP BY 1, 2, 3"""
OF_STEPS = """
SELECT time, comm, name, sum(count)::bigint, least(sum(sum), 9223372036854775807)::bigint, sum(failed)::bigint
FROM scope.syscall_steps({window}, {given}) GROUP BY 1, 2, 3"""
OF_HISTOGRAM = """
SELECT date_bin({step}, minute, 'epoch'), comm, name, at_least, sum(count)::bigint
FROM scope.syscall_histogram({window}) WHERE {chosen} GROUP BY 1, 2, 3, 4"""
OF_DISTRIBUTION = """
SELECT time, comm, name, at_least, sum(count)::bigint
FROM scope.syscall_distribution({window}, {given}) GROUP BY 1, 2, 3, 4"""
OF_GROUPS = """
SELECT date_bin({step}, minute, 'epoch'), at_least, sum(count)::bigint
FROM scope.syscall_histogram({window}) WHERE {chosen} GROUP BY 1, 2"""
OF_BUCKETS = "SELECT time, at_least, sum(count)::bigint FROM scope.syscall_buckets({window}, {given}) GROUP BY 1, 2"
PAIRS = [(OF_ROWS, ADDED_UP), (BUCKETS_OF_ROWS, BUCKETS), (SECONDS_OF_ROWS, SECONDS), (HOURS_OF_ROWS, HOURS)]


def same(line: Line) -> int:
    """Asserts that all rollups equal the totals of the rows; returns the number of rows."""
    for of_rows, added_up in PAIRS:
        wanted = line.query(of_rows)
        assert sorted(map(str, line.query(added_up))) == sorted(map(str, wanted))
    return int(line.query("SELECT count(*) FROM scope.syscall")[0][0])


def merge(line: Line) -> int:
    """Merges all fresh rollups; returns the number of steps."""
    connection = WriterConnection(line.conninfo)
    merger = Merger(connection, Tables(streams().values()).values())
    steps = 0
    while merger.step(everything=True):
        steps += 1
    connection.close()
    return steps


async def test_streams_without_rows_cost_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one look at each, a stream that nothing was written of is left alone for a while; others are looked at."""
    await line.send(Run().batch(1, rows(1, ktime_ns=[time.time_ns() - BOOT_TO_UTC_NS])))
    asked = list[str]()
    query = WriterConnection.query

    def noted(connection: WriterConnection, statement: str, *parameters: Any) -> Any:
        asked.append(statement)
        return query(connection, statement, *parameters)

    monkeypatch.setattr(WriterConnection, "query", noted)
    connection, tables, later = WriterConnection(line.conninfo), Tables(streams().values()).values(), dict[str, float]()
    for looks in (len(tables), 1):  # the second time, only at the one that has something, which is too fresh to merge
        assert not Merger(connection, tables, later).step()
        assert len(asked) == 2 * looks
        asked.clear()
    connection.close()


def spread(count: int, minutes: float, first: int = 0) -> pa.RecordBatch:
    """Rows spread over so many minutes, starting `first` minutes after the machine's first second."""
    step = int(minutes * MINUTE_NS) // count
    times = [FIRST_KTIME_NS + first * MINUTE_NS + n * step for n in range(count)]
    return rows(count, ktime_ns=times, duration_ns=[n * n * n for n in range(count)])


async def test_they_are_what_the_rows_add_up_to(line: Line) -> None:
    """Rollups equal the totals of rows by minute, machine and keys, with 64-bit values and absent results and names."""
    one, two = Run(), Run()
    await line.send(*[one.batch(n + 1, rows(1009, 1009 * n)) for n in range(5)])
    other = make_machine(line.conninfo, "f" * 32)
    await line.send(two.batch(1, spread(997, 97)), machine=other)
    assert same(line) == 5 * 1009 + 997


async def test_merging_changes_nothing(line: Line) -> None:
    """Fresh and merged rollups, alone and mixed, have the same totals; merging leaves few rows per hour."""
    run = Run()
    for sequence in range(1, 8):
        await line.send(run.batch(sequence, spread(499, 50, first=sequence)))
    assert merge(line) >= 1
    assert same(line) == 7 * 499
    assert line.query("SELECT DISTINCT level FROM rollups.syscall ORDER BY 1") == [(1,), (2,), (3,)]
    assert line.query("SELECT max(n) FROM (SELECT count(*) n FROM rollups.syscall GROUP BY hour) q") == [(6,)]
    await line.send(run.batch(8, spread(499, 50)), machine=make_machine(line.conninfo, "f" * 32))
    await line.send(run.batch(8, spread(499, 50)))
    assert same(line) == 8 * 499
    assert merge(line) >= 1
    assert same(line) == 8 * 499
    every = "SELECT sum(c)::bigint FROM rollups.syscall, unnest(counts) c WHERE {} GROUP BY level"
    assert line.query(every.format("machine = 0")) == line.query(every.format("machine <> 0")) == [(8 * 499,)] * 3


async def test_what_comes_late_twice_or_not_at_all(line: Line) -> None:
    """A resent batch adds nothing; a late one adds to its own minutes; a gap or a quarantined batch adds nothing."""
    run = Run()
    late = run.batch(2, spread(211, 3))
    await line.send(run.batch(3, spread(211, 3, first=59)), run.batch(1, rows(101)))
    merge(line)
    await line.send(late, late, run.gap((4, 4, 7)), run.batch(4, rows(7)))
    bad = run.batch(5, rows(13), event_count=12)
    line.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$"
        "BEGIN IF 3000 = ANY(NEW.arg0) THEN RAISE EXCEPTION 'unlucky'; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON fresh.syscall FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    group = [run.batch(n, rows(101, 1000 * n - 4000)) for n in (6, 7, 8)]
    await line.send(bad, *group, *group)
    assert line.query("SELECT count(*) FROM store.quarantine") == [(2,)]
    assert same(line) == 101 + 2 * 211 + 2 * 101
    merge(line)
    assert same(line) == 101 + 2 * 211 + 2 * 101


# Begin, in s after the first hour's, and length: whole hours, cut ones, within an hour, across two, nothing.
WINDOWS = ((0, 7200), (3600, 3600), (1, 7199), (1830, 9000), (4500, 61), (7140, 120), (5399.5, 10801.25), (9000, 0))


async def test_a_window_has_the_minutes_that_begin_in_it(line: Line) -> None:
    """Totals of a window, wherever it begins and ends, equal those of the rows, merged or late."""
    run = Run()
    await line.send(run.batch(1, spread(2003, 300)))
    merge(line)
    await line.send(run.batch(2, spread(311, 299)))
    for begin, length in WINDOWS:
        since = _FIRST.replace(second=0) + timedelta(seconds=begin)
        window = f"'{since}', '{since + timedelta(seconds=length)}'"
        rows_of = f"(SELECT * FROM scope.syscall WHERE tstzrange({window}) @> date_trunc('minute', time)) AS r "
        for of_rows, added_up in ((OF_ROWS, ADDED_UP), (BUCKETS_OF_ROWS, BUCKETS)):
            wanted = line.query(of_rows.replace("scope.syscall ", rows_of))
            assert sorted(map(str, line.query(added_up.replace("'-infinity'", window)))) == sorted(map(str, wanted))
            assert (length > 0) == (wanted != [])
        for machines in ("NULL", f"ARRAY['{line.machine.machine_id}']", "ARRAY['another']"):
            for by_minute, shown, given in (
                (OF_MINUTES, OF_TOTALS, ""),
                *(
                    (by_minute, shown, f"'{step}', ")
                    for by_minute, shown in (
                        (OF_MINUTES_IN_STEPS, OF_STEPS),
                        (OF_HISTOGRAM, OF_DISTRIBUTION),
                        (OF_GROUPS, OF_BUCKETS),
                    )
                    for step in ("10 min", "90 min", "2 h")
                ),
            ):
                chosen = f"{machines} IS NULL OR machine_id = ANY ({machines}::text[])"
                wanted = line.query(by_minute.format(window=window, chosen=chosen, step=given.rstrip(", ")))
                told = line.query(shown.format(window=window, given=given + machines))
                assert sorted(map(str, told)) == sorted(map(str, wanted))
                assert (length > 0 and "another" not in machines) == (wanted != [])


async def test_totals_of_an_older_server_are_merged_again(line: Line) -> None:
    """Merged totals had no rows without keys; after the migration, all questions are answered, from fresh ones."""
    await line.send(Run().batch(1, spread(1009, 300)))
    merge(line)
    of_groups = line.query(OF_GROUPS.format(window=EVER, chosen="true", step="'10 min'"))
    asked_of = OF_BUCKETS.format(window=EVER, given="'10 min'")
    line.query("WITH gone AS (DELETE FROM rollups.syscall WHERE level = 3 RETURNING 1) SELECT count(*) FROM gone")
    assert line.query(asked_of) == []
    with psycopg.connect(line.conninfo) as connection:
        connection.execute(migrations()[25])
    for _ in range(2):
        assert sorted(line.query(asked_of)) == sorted(of_groups)
        assert same(line) == 1009
        merge(line)


async def test_totals_of_a_stream_without_keys(line: Line) -> None:
    """They are no row if there is nothing, though there are no groups."""
    table = next(one for one in Tables(streams().values()).values() if not one.rollup.by)
    assert line.query(f"SELECT * FROM scope.{table.name}_totals('-infinity')") == []


async def test_a_merge_that_is_cut_off_loses_and_doubles_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge step is one transaction: interrupted in the middle, it changes nothing."""
    run = Run()
    for sequence in range(1, 4):
        await line.send(run.batch(sequence, spread(499, 5)))
    connection = WriterConnection(line.conninfo)
    sound = connection.ingest
    calls: Iterator[int] = iter(range(100))

    def cut_off(schema: str, table: str, rows: pa.Table) -> None:
        if next(calls) == 2:
            line.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%rollups%'"
                " AND pid <> pg_backend_pid() AND application_name = 'scope writer'"
            )
        sound(schema, table, rows)

    monkeypatch.setattr(connection, "ingest", cut_off)
    with pytest.raises(StoreUnavailable):
        Merger(connection, Tables(streams().values()).values()).step(everything=True)
    assert same(line) == 3 * 499
    assert line.query("SELECT DISTINCT level FROM rollups.syscall") == [(0,)]
    merge(line)
    assert same(line) == 3 * 499


async def test_a_writer_that_is_cut_off_adds_once(line: Line) -> None:
    """If writers lose their connections again and again, rollups still equal the rows, and each row is stored once."""
    run = Run()
    for sequence in range(1, 30):
        if sequence % 7 == 0:
            line.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'scope writer'")
        await line.send(run.batch(sequence, spread(53, 2, first=sequence)))
    assert same(line) == 29 * 53


async def test_a_summary_brings_its_own_histogram(line: Line) -> None:
    """A summary's rollup takes counts, errors and sums from its columns, and buckets from its histogram."""
    schema = probe_named("syscalls").schema(probe_named("syscalls").streams[1])
    buckets = [[0] * 40 for _ in range(3)]
    for number, (bucket, count) in enumerate([(7, 5), (8, 11), (39, 1)]):
        buckets[number][bucket] = count
    values: dict[str, Any] = {field.name: [None if pa.types.is_dictionary(field.type) else 0] * 3 for field in schema}
    values |= {"ktime_ns": [FIRST_KTIME_NS] * 3, "pid": [7] * 3, "start_ns": [1] * 3, "comm": ["a", "a", "b"]}
    values |= {"name": ["read"] * 3, "count": [5, 11, 1], "errors": [1, 2, 0], "total_ns": [900, 4000, 1 << 39]}
    columns = pa.RecordBatch.from_pydict(values | {"latency": buckets}, schema=schema)
    await line.send(Run().batch(1, columns, stream="syscall_summary"))
    asked = "SELECT comm, name, count, sum, failed FROM scope.syscall_summary_minutes('-infinity') ORDER BY comm"
    assert line.query(asked) == [("a", "read", 16, 4900, 3), ("b", "read", 1, 1 << 39, 0)]
    asked = "SELECT comm, at_least, count FROM scope.syscall_summary_histogram('-infinity') ORDER BY 1, 2"
    assert line.query(asked) == [("a", 128, 5), ("a", 256, 11), ("b", 1 << 39, 1)]
    assert line.query("SELECT sum(count)::bigint FROM scope.syscall_summary_seconds('-infinity')") == [(17,)]


async def test_percentiles_in_sql(line: Line) -> None:
    """`scope.percentile` returns a value in the bucket that has the percentile of the summed histograms."""
    await line.send(Run().batch(1, rows(1000, duration_ns=[100] * 980 + [5000] * 20, name=["read"] * 1000)))
    asked = "SELECT scope.percentile(0.5, at_least, count), scope.percentile(0.99, at_least, count) FROM {}"
    ((median, p99),) = line.query(asked.format("scope.syscall_histogram('-infinity')"))
    assert 64 <= median <= 128
    assert 4096 <= p99 <= 8192


async def test_all_is_added_up_once(line: Line) -> None:
    """A ranking adds everything up once, not once per group, also while PostgreSQL has no statistics of the day; nor
    are the values of a heatmap copied or sorted before.
    """
    run = Run()
    await line.send(run.batch(1, spread(101, 3)))
    table, until = Tables(streams().values())["syscall"], _FIRST + timedelta(minutes=2)
    with psycopg.connect(line.conninfo) as connection:
        connection.execute(SETTINGS)
        rows_ = Selection(table, since=_FIRST, until=until)
        for order in ("count", "sum(duration_ns)", "p99(duration_ns)"):
            cells = read_cells("count,sum(duration_ns),p50(duration_ns),p99(duration_ns)", table)
            query = ranking(asked(rows_, cells=cells, by=("comm", "name"), every=None, order=order, top=9))
            assert len(connection.execute(query).fetchall()) > 3
            ((plan,),) = connection.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) {}").format(query)).fetchall()
            loops = [node["Actual Loops"] for node in _nodes(plan[0]["Plan"]) if node["Node Type"] == "Aggregate"]
            assert len(loops) >= 3
            assert {*loops} == {1}, order
        connection.execute(HASHED)
        query = distribution(asked(rows_, cells=cells, by=(), every="1m", order="", top=1))
        ((plan,),) = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) {}").format(query)).fetchall()
        kinds = {node["Node Type"] for node in _nodes(plan[0]["Plan"])}
        assert "ProjectSet" in kinds and not kinds & {"Sort", "Function Scan"}, "values are read one by one"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)
