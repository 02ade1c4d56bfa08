"""The latest states equal the newest of all rows, also if rows arrive late, twice or out of order."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.integration.server.keeping import TODAY, ago, retain, sweep
from tests.integration.server.records import BOOT_TO_UTC_NS, STORED, Line, Run, lined, make_machine
from tests.integration.server.running import until
from tests.integration.server.states import HELD, MEMORY, assert_ranks, at_random, by_all_rows, told
from tests.integration.server.tables import TABLES, migrated

from scope_catalogue.catalogue import streams
from scope_catalogue.shown import Latest
from scope_server.store.latest.reader import States
from scope_server.store.reading.database import Database
from scope_server.store.retention import Disk, Retention
from scope_server.store.schema.tables import Tables

BEGIN = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
LONG_AGO = BEGIN - timedelta(days=400)
# Makes writers wait for an advisory lock after they have updated states, and before they insert new ones.
_WAITS = """
CREATE FUNCTION latest.wait() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END$$;
CREATE TRIGGER zz AFTER UPDATE ON latest.cuda_live FOR EACH STATEMENT EXECUTE FUNCTION latest.wait()"""


@pytest.fixture
async def database_of(line: Line) -> AsyncIterator[Database]:
    """Queries of the line's database."""
    async with Database(line.conninfo, 4, 20) as database:
        await database.prepare(TABLES)
        yield database


@pytest.fixture
def states(database_of: Database) -> States:
    """A reader of the line's states."""
    return States(database_of)


async def tell(line: Line, run: Run, sequence: int, stream: str = "cuda_live", count: int = 1, **columns: Any) -> None:
    """Stores equal rows of a stream, `days` ago."""
    days = columns.pop("days", 0)
    rows = told(stream, count, **{name: [value] * count for name, value in columns.items()})
    sent = run.batch(sequence, rows, stream=stream, boot_to_utc_ns=ago(days))
    assert [one.verdict for one in await line.send(sent)] == [STORED]


async def held(
    states: States, since: datetime = LONG_AGO, limit: int = 100, stream: str = "cuda_live", **of: Any
) -> list[tuple[Any, ...]]:
    """The largest groups."""
    return [tuple(row.values()) for row in await states.largest(TABLES[stream], since=since, limit=limit, **of)]


@pytest.mark.parametrize("seed", range(3))
async def test_the_answer_is_that_of_all_rows(line: Line, states: States, database_of: Database, seed: int) -> None:
    """For random rows, the latest states give the same answer as all rows, by time, limit, machine and pid."""
    random = np.random.default_rng(seed)
    machines = [line.machine, await asyncio.to_thread(make_machine, line.conninfo, "f" * 32)]
    runs = {(machine.key, stream): Run() for machine in machines for stream in ("cuda_live", "cuda_memory")}
    for sequence in range(1, 8):
        for machine in machines:
            sent = [
                runs[machine.key, stream].batch(
                    sequence,
                    at_random(stream, int(random.integers(1, 60)), random, range(1, 600)),
                    stream=stream,
                    boot_to_utc_ns=ago(int(random.integers(0, 3))),
                )
                for stream in ("cuda_live", "cuda_memory")
            ]
            assert {one.verdict for one in await line.send(*sent, machine=machine)} == {STORED}
    assert_ranks(line)
    for since in (LONG_AGO, BEGIN - timedelta(days=1), BEGIN, *(BEGIN + timedelta(seconds=s) for s in (200, 500, 900))):
        whole = by_all_rows(line, HELD, since)
        for limit in (1, 3, 1000):
            assert await held(states, since, limit) == whole[:limit]
        for machine in machines:
            of_machine = [row for row in whole if row[0] == machine.machine_id]
            assert await held(states, since, 5, machine=machine.key) == of_machine[:5]
        found = await database_of.fetch("find_processes", {"pid": 2, "start_ns": None, "machines": None})
        of_pid = [row for row in whole if row[2] == 2]
        assert await held(states, since, 5, processes=[row["id"] for row in found]) == of_pid[:5]
        assert await held(states, since, 1000, "cuda_memory") == by_all_rows(line, MEMORY, since)
    assert any(frees and not live for *_, live, _, frees, _ in by_all_rows(line, MEMORY, LONG_AGO))
    assert await held(states, processes=[]) == []


async def test_a_late_row_changes_nothing(line: Line, states: States) -> None:
    """A late row changes neither a newer state nor an ended one."""
    run = Run()
    await tell(line, run, 1, stack_id=1, ktime_ns=10**10, live_count=1, live_bytes=100)
    await tell(line, run, 2, stack_id=2, ktime_ns=10**10, live_count=0, live_bytes=0)
    await tell(line, run, 3, stack_id=1, ktime_ns=10**9, live_count=9, live_bytes=900)
    await tell(line, run, 4, stack_id=2, ktime_ns=10**9, live_count=9, live_bytes=900)
    assert [row[9:11] for row in await held(states)] == [(100, 1)]
    assert_ranks(line)


async def test_the_last_of_equal_times_counts(line: Line, states: States) -> None:
    """Of rows with equal times, the last one counts: by batch, then by place in the batch. They are one state."""
    run = Run()
    rows = told("cuda_live", 7, ktime_ns=[10**9] * 7, live_count=[1] * 7, live_bytes=list(range(1, 8)))
    await line.send(run.batch(1, rows, stream="cuda_live"))
    assert [row[9:11] for row in await held(states)] == [(7, 1)]
    await tell(line, run, 2, ktime_ns=10**9, live_count=1, live_bytes=5)
    assert [row[9:11] for row in await held(states)] == [(5, 1)]


async def test_states_move_with_their_process(line: Line, states: States) -> None:
    """A renamed process's states move to the group of the new name; an ended one's are listed after all others."""
    run = Run()
    await tell(line, run, 1, comm="before", live_count=1, live_bytes=700)
    await tell(line, run, 2, pid=2, comm="other", live_count=1, live_bytes=100)
    await tell(line, run, 3, comm="after", ktime_ns=2 * 10**9, live_count=1, live_bytes=700)
    assert [(row[4], row[9]) for row in await held(states)] == [("after", 700), ("other", 100)]
    await tell(line, run, 4, comm="after", ktime_ns=3 * 10**9, live_count=1, live_bytes=700, ended=1)
    assert [(row[4], row[8]) for row in await held(states)] == [("other", False), ("after", True)]
    assert_ranks(line)


async def test_what_was_not_told_lately_is_not_added_up(line: Line, states: States) -> None:
    """Groups with only too old states are left out, even if many are larger than those found."""
    run = Run()
    for sequence, (first_s, bytes_) in enumerate([(1, 1 << 40), (100, 1)], 1):
        rows = told(
            "cuda_live",
            101,
            ktime_ns=[first_s * 10**9] * 101,
            stack=[f"main;{n}" for n in range(101)],
            stack_id=[n + 1000 * sequence for n in range(101)],
            live_count=[1] * 101,
            live_bytes=[bytes_ + n * (1 if sequence == 2 else -1) for n in range(101)],
        )
        await line.send(run.batch(sequence, rows, stream="cuda_live"))
    found = await held(states, BEGIN + timedelta(seconds=50), limit=3)
    assert [(row[7], row[9], row[10]) for row in found] == [(f"main;{n}", 1 + n, 1) for n in (100, 99, 98)]


async def test_hostile_sums_are_told_as_the_largest_number(line: Line, states: States) -> None:
    """A sum above 64 bits is shown as the largest number, and does not fail the query."""
    run = Run()
    for number in (1, 2):
        await tell(line, run, number, stack_id=number, live_count=1, live_bytes=(1 << 63) - 1)
    assert [row[9] for row in await held(states)] == [(1 << 63) - 1]


async def test_writers_of_the_same_states_agree(database: str, states: States) -> None:
    """If several runs and lanes write the same states at the same time, the newest rows win."""
    random = np.random.default_rng(5)
    async with lined(database, lanes=2) as line:
        runs = [Run() for _ in range(4)]
        batches = [
            [run.batch(n, at_random("cuda_live", 50, random, range(1, 600)), stream="cuda_live") for n in range(1, 9)]
            for run in runs
        ]
        answers = await asyncio.gather(*(line.send(*sent) for sent in batches))
        assert {one.verdict for sent in answers for one in sent} == {STORED}
        assert_ranks(line)
        assert await held(states, limit=1000) == by_all_rows(line, HELD, LONG_AGO)


async def test_writers_that_wait_for_each_other_both_write(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """If two writers deadlock on each other's groups, PostgreSQL aborts one; it retries, and both are stored."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
    async with lined(database, lanes=1) as line, lined(database, lanes=1) as other:
        for number in (1, 2):
            await tell(line, Run(), 1, pid=number, stack_id=1, live_count=1, live_bytes=1)
        line.query(_WAITS)
        with psycopg.connect(database, autocommit=True) as gate:
            gate.execute("SELECT pg_advisory_lock(7)")
            rows = {"ktime_ns": [2 * 10**9] * 2, "live_count": [1] * 2, "live_bytes": [5] * 2}
            sent = [told("cuda_live", 2, pid=pids, stack_id=[1, 2], **rows) for pids in ([1, 2], [2, 1])]
            both = asyncio.gather(
                *(
                    one.send(Run().batch(1, two, stream="cuda_live"))
                    for one, two in zip((line, other), sent, strict=True)
                )
            )
            await until(lambda: asyncio.to_thread(line.query, waiting), lambda found: found == [(2,)])
        assert {answer.verdict for answers in await both for answer in answers} == {STORED}
        assert [vars(record)["reason"] for record in caplog.records if hasattr(record, "retry_s")] == [
            "deadlock detected"
        ]
        assert_ranks(line)
        assert line.query("SELECT total FROM ranked.cuda_live") == [(10,), (10,)]


async def test_states_go_with_the_days_of_their_rows(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """A state is deleted with the day of its newest row, also if it is over; other states keep texts and process."""
    run = Run()
    await tell(line, run, 1, pid=1, days=5, stack="main;old", comm="old", live_count=1, live_bytes=1)
    await tell(line, run, 2, pid=2, days=5, stack="main;over", comm="over")
    await tell(line, run, 3, pid=3, days=5, stack="main;kept", comm="before", live_count=1, live_bytes=1)
    await tell(line, run, 4, pid=3, stack="main;kept", comm="after", live_count=1, live_bytes=1)
    retain(upkeep, keep_days=2)
    assert line.query("SELECT p.pid FROM latest.cuda_live l JOIN store.processes p ON p.id = l.process") == [(3,)]
    assert line.query("SELECT held, total FROM ranked.cuda_live WHERE held > 0") == [(1, 1)]
    assert line.query("SELECT count(*) FROM ranked.cuda_live WHERE day < now() - interval '3 days'") == [(0,)]
    # As if the rows were deleted, but not the state.
    line.query("DELETE FROM store.batches")
    sweep(upkeep)
    assert line.query("SELECT pid FROM store.processes") == [(3,)]
    assert line.query("SELECT text FROM store.names") == [("after",)]
    assert line.query("SELECT store.stack_text(id) FROM store.stacks") == [("main;kept",)]


async def test_a_short_disk_is_not_filled_by_deleting(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """If space is short, a day is dropped without its states; a later drop with enough space deletes them too."""
    run, count = Run(), "SELECT count(*) FROM latest.cuda_live"
    await tell(line, run, 1, pid=1, days=5, live_count=1)
    await tell(line, run, 2, pid=2, days=4, live_count=1)
    short = Retention(Disk(1 << 60, 1 << 40), 30, lambda: TODAY)
    short.begin(upkeep)
    short.step(upkeep)
    assert line.query("SELECT count(*) FROM scope.cuda_live") == [(1,)]
    assert line.query(count) == [(2,)]
    retain(upkeep, keep_days=2)
    assert line.query(count) == [(0,)]
    assert_ranks(line)


async def test_any_stream_can_tell_states(database: str) -> None:
    """Any stream can declare states, also without ended processes; a changed declaration deletes the states."""
    latest = Latest(key=("device", "kind"), by=("comm", "device"), totals=("used_bytes",), held=("used_bytes",))
    tables = _with_states(latest)
    rows = told("gpu_process", 4, pid=[1, 1, 2, 0], device=[0, 0, 1, 0], used_bytes=[10, 20, 25, 0])
    rows = rows.set_column(
        rows.schema.get_field_index("kind"),
        rows.schema.field("kind"),
        told("gpu_process", 4, kind=["compute", "graphics", "compute", "compute"]).column("kind"),
    )
    async with lined(database, tables=tables) as line, Database(line.conninfo, 2, 20) as queries:
        await queries.prepare(tables)
        await line.send(Run().batch(1, rows, stream="gpu_process"))
        found = await States(queries).largest(tables["gpu_process"], since=LONG_AGO, limit=10)
        assert [(row["pid"], row["device"], row["used_bytes"]) for row in found] == [(1, 0, 30), (2, 1, 25)]
        migrated(database, tables)
        assert line.query("SELECT count(*) FROM latest.gpu_process") == [(4,)]
        migrated(database, _with_states(replace(latest, by=("comm",))))
        assert line.query("SELECT count(*) FROM latest.gpu_process") == [(0,)]
        assert line.query("SELECT count(*) FROM ranked.gpu_process") == [(0,)]


def _with_states(latest: Latest) -> Tables:
    return Tables({**streams(), "gpu_process": replace(streams()["gpu_process"], latest=latest)}.values())


async def test_what_is_not_known_is_not_over(line: Line, states: States) -> None:
    """A process with unknown GPU memory is listed, after those with known memory."""
    known, unknown = Run(), Run()
    await tell(line, known, 1, "gpu_process", pid=1, comm="known", kind="compute", used_bytes=5)
    await tell(line, known, 2, "gpu_process", pid=2, comm="gone", kind="compute", used_bytes=0)
    await tell(line, unknown, 1, "gpu_process", pid=3, comm="unknown", kind="compute", used_bytes=None)
    found = await states.largest(TABLES["gpu_process"], since=LONG_AGO, limit=2)
    assert [(row["comm"], row["used_bytes"]) for row in found] == [("known", 5), ("unknown", None)]
    assert line.query("SELECT comm, used_bytes FROM scope.gpu_process_now() ORDER BY 1") == [
        ("known", 5),
        ("unknown", None),
    ]


async def test_states_need_no_process(line: Line, states: States) -> None:
    """States without a process are kept exactly; values that a GPU does not report are absent."""
    run = Run()
    figures: dict[str, Any] = {"memory_used_bytes": 7, "power_watts": 412.345, "gpu_percent": None}
    await tell(line, run, 1, "gpu", device=0, uuid="GPU-0", name="one", slowed_by="thermal", **figures)
    await tell(line, run, 2, "gpu", device=0, uuid="GPU-0", name="one", ktime_ns=10**12, slowed_by="", **figures)
    await tell(line, run, 3, "gpu", device=1, uuid=None, name="two", memory_used_bytes=None, power_watts=None)
    first, second = await states.largest(TABLES["gpu"], since=LONG_AGO, limit=10)
    assert (first["uuid"], first["slowed_by"], {name: first[name] for name in figures}) == ("GPU-0", "", figures)
    assert (second["name"], second["uuid"], second["memory_used_bytes"], second["power_watts"]) == (
        ("two", None, None, None)
    )
    assert not {"pid", "start_ns"} & set(first)
    assert line.query("SELECT power_watts, slowed_by FROM scope.gpu_now() WHERE device = 0") == [(412.345, "")]


async def test_each_stream_of_states_has_functions(line: Line, states: States) -> None:
    """Each stream of states has a function that returns its current states, whose sums equal the groups, and one that
    returns the largest groups, also of machines and commands."""
    random = np.random.default_rng(11)
    await line.send(Run().batch(1, at_random("cuda_live", 101, random, range(1, 600)), stream="cuda_live"))
    now = """
    SELECT machine_id, hostname, pid, start_ns, comm, memory, device, stack, ended, sum(live_bytes)::bigint
    FROM scope.cuda_live_now() GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9 ORDER BY 9, 10 DESC"""
    assert line.query(now) == [row[:10] for row in await held(states)]
    (about,) = line.query("SELECT obj_description('scope.cuda_live_now()'::regprocedure)")
    assert "live_bytes: memory not freed yet (bytes)" in about[0]
    groups = await held(states)
    assert _largest(line, "7") == groups[:7]
    comms = sorted({row[4] for row in groups if row[4]})
    assert len(comms) > 1
    assert _largest(line, f"100, ARRAY['{line.machine.machine_id}'], ARRAY['{comms[0]}']") == [
        row for row in groups if row[4] == comms[0]
    ]
    assert _largest(line, "100, ARRAY['another']") == []
    functions = "SELECT proname FROM pg_proc WHERE pronamespace = 'scope'::regnamespace AND proname ~ '_(now|largest)$'"
    found = {name for (name,) in line.query(functions)}
    assert found == {f"{name}_{way}" for name, table in TABLES.items() if table.latest for way in ("now", "largest")}


def _largest(line: Line, arguments: str) -> list[tuple[Any, ...]]:
    """What a function returns, as `held` returns it: with the time at the end, and without the number of states."""
    rows = line.query(f"SELECT * FROM scope.cuda_live_largest({arguments})")
    return [(*row[1:-1], row[0]) for row in rows]


def test_what_people_built_on_states_stops_no_server(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """A migration that changes a stream's states keeps a function that a user's view depends on; the view works."""
    migrated(database)
    stream = streams()["cuda_live"]
    assert stream.latest
    with psycopg.connect(database) as connection:
        connection.execute("CREATE VIEW mine AS SELECT comm, live_bytes FROM scope.cuda_live_now()")
    migrated(database, Tables([replace(stream, latest=replace(stream.latest, means={}))]))
    assert "scope.cuda_live_now" in [getattr(record, "function", "") for record in caplog.records]
    migrated(database)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)
