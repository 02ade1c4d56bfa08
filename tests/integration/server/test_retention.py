"""Retention: days beyond the age or size limit are deleted whole, without blocking readers or writers."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.integration.server.closed_days import compacted
from tests.integration.server.keeping import TODAY, ago, retain, store, sweep
from tests.integration.server.records import LATER, STORED, Line, Run, account, rows

from scope_server.store.retention import Closed, Disk, Retention
from scope_server.store.retention import closed as closed_books
from scope_server.store.retention.days import wal_bytes

PARTITIONS = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('fresh', 'packed', 'rollups', 'store') AND c.relkind = 'r' AND c.relname ~ '_[0-9]{8}$'"""


def days(line: Line) -> set[int]:
    """The ages, in days, of all stored rows."""
    found = line.query("SELECT DISTINCT (time AT TIME ZONE 'UTC')::date FROM scope.syscall")
    return {(TODAY - day).days for (day,) in found}


@pytest.fixture
def without_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the write-ahead log out of the measured size, which then changes only with the rows."""
    monkeypatch.setattr("scope_server.store.retention.days.wal_bytes", lambda _: 0)


async def test_days_go_by_age(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """Rows, catalogue and rollups of days beyond the age limit are deleted; those of other days stay."""
    run = Run()
    for number, day in enumerate((0, 1, 2, 5, 6)):
        await store(line, run, day, number + 1, first=101 * number)
    retention = retain(upkeep, keep_days=2)
    assert days(line) == {0, 1, 2}
    assert line.query("SELECT count(*), sum(event_count)::bigint FROM store.batches") == [(3, 303)]
    left = {name[-8:] for (name,) in line.query(PARTITIONS)}
    assert left == {f"{TODAY - timedelta(days=day):%Y%m%d}" for day in (0, 1, 2)}
    assert retention.dropped_days == {"age": 2}
    assert retention.dropped_rows == 202


@pytest.mark.usefixtures("without_log")
async def test_a_clock_far_ahead_takes_nothing(
    line: Line, upkeep: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that has jumped ahead deletes no day by age, and is reported; the size limit still applies."""
    run = Run()
    await store(line, run, 0)
    await store(line, run, 1, 2)
    clock = [TODAY, TODAY + timedelta(days=3650)]
    leapt = Retention(Disk(0, 1 << 40), 30, lambda: clock[0])
    leapt.step(upkeep)
    assert leapt.storage.problem == ""
    clock.pop(0)
    for retention in (leapt, Retention(Disk(0, 1 << 40), 30, lambda: clock[0])):
        assert not retention.step(upkeep)
        assert "the clock has jumped" in retention.storage.problem
        assert days(line) == {0, 1}
    assert caplog.text.count("the clock has jumped") == 2
    Retention(Disk(0, leapt.storage.bytes - 1 if leapt.storage.bytes else 0), 30, lambda: clock[0]).step(upkeep)
    assert days(line) == {0}


@pytest.mark.usefixtures("without_log")
async def test_the_oldest_days_go_by_bytes(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """Beyond the size limit, the oldest days are deleted, and no more than needed."""
    run = Run()
    for number, day in enumerate((0, 1, 2, 3)):
        await store(line, run, day, number + 1, count=20_011)
    kept = retain(upkeep).storage
    assert kept.bytes
    limit = kept.bytes - 1
    retention = retain(upkeep, keep_bytes=limit)
    assert days(line) == {0, 1, 2}
    assert retention.storage.bytes and retention.storage.bytes <= limit
    assert retention.dropped_days == {"limit": 1}
    assert list(retention.storage.days) == [TODAY - timedelta(days=day) for day in (2, 1, 0)]


async def test_the_write_ahead_log_counts(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """The log is part of the stored bytes and of the limit; a user who may not see the log counts the rest."""
    run = Run()
    await store(line, run, 0)
    await store(line, run, 1, 2)
    storage = retain(upkeep).storage
    (log,) = upkeep.execute("SELECT sum(size)::bigint FROM pg_ls_waldir()").fetchone() or (0,)
    tables = (storage.bytes or 0) - storage.wal_bytes
    assert 0 < storage.wal_bytes <= log
    assert sum(storage.days.values()) <= tables < storage.wal_bytes
    retain(upkeep, keep_bytes=tables + (1 << 20))
    assert days(line) == {0}
    with upkeep.transaction(force_rollback=True):
        upkeep.execute("CREATE ROLE stranger; SET LOCAL ROLE stranger")
        assert wal_bytes(upkeep) == 0


async def test_today_never_goes_by_bytes(
    line: Line, upkeep: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """If today alone exceeds the limit, it is kept, the error is logged once an hour, and rows are still stored."""
    run = Run()
    await store(line, run, 0)
    await store(line, run, 1, 2)
    retention = retain(upkeep, keep_bytes=1)
    retention.step(upkeep)
    assert days(line) == {0}
    assert "raise --keep-bytes" in retention.storage.problem
    assert caplog.text.count("stored data exceeds the limits") == 1
    await store(line, run, 0, 3)


async def test_the_books_stay(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """Rows of a deleted day still count as stored; `scope.dropped` lists the deletion by stream and day."""
    run = Run()
    await store(line, run, 9)
    await store(line, run, 0, 2)
    retain(upkeep, keep_days=3)
    assert line.books() == [(202, 202, 0, 0, False)]
    told = line.query("SELECT stream, day, rows, bytes > 0, reason FROM scope.dropped ORDER BY stream")
    assert told == [
        ("syscall", TODAY - timedelta(days=9), 101, True, "age"),
        (None, TODAY - timedelta(days=9), 0, True, "age"),
    ]


@pytest.mark.usefixtures("without_log")
async def test_a_late_row_makes_its_day_anew(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """A writer stores late rows of a dropped day, in a new partition; the next run of retention drops them."""
    run = Run()
    await store(line, run, 2)
    await store(line, run, 0, 2)
    stored = retain(upkeep).storage.bytes
    assert stored
    retain(upkeep, keep_bytes=stored - 1)
    assert days(line) == {0}
    await store(line, run, 2, 3)
    assert days(line) == {0, 2}
    retain(upkeep, keep_bytes=1)
    assert days(line) == {0}
    assert line.query("SELECT sum(rows)::bigint FROM scope.dropped") == [(202,)]


async def test_nobody_is_locked_out(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """A long reader delays the deletion of a day, but blocks no reader or writer; afterwards, the day is deleted."""
    run = Run()
    await store(line, run, 5)
    await store(line, run, 0, 2)
    with psycopg.connect(line.conninfo) as reader:
        assert reader.execute("SELECT count(*) FROM scope.syscall").fetchone() == (202,)
        dropping = asyncio.create_task(asyncio.to_thread(retain, upkeep, 2))
        sequence = 3
        while not dropping.done():
            async with asyncio.timeout(20):
                await store(line, run, 0, sequence)
            recent = "SELECT count(*) >= 101 FROM scope.syscall WHERE time > now() - interval '1 day'"
            assert line.query(recent) == [(True,)]
            sequence += 1
        retention = await dropping
        assert retention.dropped_days == {}
        assert "is still being read" in retention.storage.problem
        assert line.query("SELECT count(*) FROM scope.dropped") == [(0,)]
    await asyncio.to_thread(retain, upkeep, 2)
    assert days(line) == {0}
    assert line.query("SELECT count(*) FROM scope.syscall") == [(101 * (sequence - 2),)]
    assert line.books() == [(101 * (sequence - 1), 101 * (sequence - 1), 0, 0, False)]


async def test_a_late_row_of_a_day_that_is_going_waits(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """While a reader delays a day's deletion, late rows of that day are answered with LATER; other rows are stored."""
    run = Run()
    await store(line, run, 5)
    await store(line, run, 0, 2)
    late = run.batch(3, rows(101), boot_to_utc_ns=ago(5))
    with psycopg.connect(line.conninfo) as reader:
        reader.execute("SELECT count(*) FROM fresh.syscall")
        await asyncio.to_thread(retain, upkeep, 2)
        answers = await line.send(late, run.batch(4, rows(101)))
    assert [answer.verdict for answer in answers] == [LATER, STORED]
    retain(upkeep, keep_days=2)
    assert [answer.verdict for answer in await line.send(late)] == [STORED]


KILLED = """
import os, sys, psycopg
from scope_server.store.retention import Disk, Retention, drop
statements, at = [], int(sys.argv[2])
class Connection(psycopg.Connection):
    def execute(self, query, *args, **options):
        text = query if isinstance(query, (str, bytes)) else query.as_string(self)
        if any(word in str(text) for word in ("DETACH", "DROP TABLE", "UPDATE store.dropped")):
            statements.append(text)
            if len(statements) > at:
                os.kill(os.getpid(), 9)
        return super().execute(query, *args, **options)
with Connection.connect(sys.argv[1], autocommit=True) as connection:
    Retention(Disk(0, 1 << 40), 2).step(connection)
"""


@pytest.mark.parametrize("statements", range(8))
async def test_what_was_interrupted_is_completed(line: Line, upkeep: psycopg.Connection[Any], statements: int) -> None:
    """If a server is killed between any two statements of a deletion, the next one completes it and counts it once."""
    run = Run()
    await store(line, run, 5)
    await store(line, run, 0, 2)
    command = [sys.executable, "-c", KILLED, line.conninfo, str(statements)]
    killed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert killed.returncode in (0, -9), killed.stderr
    retain(upkeep, keep_days=2)
    assert {name[-8:] for (name,) in line.query(PARTITIONS)} == {f"{TODAY:%Y%m%d}"}
    assert line.query("SELECT count(*), sum(rows)::bigint FROM scope.dropped") == [(2, 101)]
    assert line.query("SELECT due FROM store.sweep") == [(2,)]


async def test_a_detach_that_was_not_finished_is_finished(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """A partition that a long reader left half detached is detached and deleted in the next run."""
    run = Run()
    await store(line, run, 5)
    await store(line, run, 0, 2)
    with psycopg.connect(line.conninfo) as reader:
        reader.execute("SELECT count(*) FROM fresh.syscall")
        assert (await asyncio.to_thread(retain, upkeep, 2)).dropped_days == {}
        assert line.query("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") != [(0,)]
    retain(upkeep, keep_days=2)
    assert line.query("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == [(0,)]
    assert days(line) == {0}


async def test_tasks_that_are_over_are_forgotten(
    line: Line, upkeep: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old tasks without rows and with closed books are deleted; open, wanted and the newest tasks are kept."""
    monkeypatch.setattr(closed_books, "NEWEST_TASKS", 1)
    over, open_, wanted, newest = (Run() for _ in range(4))
    for run in (over, open_, wanted, newest):
        await line.send(run.start())
        await store(line, run, 20)
        if run is not open_:
            await line.send(run.end({"syscall": 1}, {"syscall": account(101)}))
    line.query("UPDATE store.runs SET ended = now() - interval '20 days' WHERE ended IS NOT NULL")
    line.query("UPDATE store.tasks SET created = now() - interval '20 days', wanted = task_id = %s", wanted.task_id)
    await store(line, Run(newest.task_id), 0)
    closed = Closed(30)
    closed.step(upkeep)
    assert line.query("SELECT count(*) FROM store.tasks") == [(4,)]  # they still have rows
    retain(upkeep, keep_days=10)
    closed.step(upkeep)
    left = {task for (task,) in line.query("SELECT task_id FROM store.tasks")}
    assert left == {open_.task_id, wanted.task_id, newest.task_id}
    assert line.query("SELECT count(*) FROM store.accounts a LEFT JOIN store.runs r ON r.id = a.run") == [(4,)]


async def test_old_quarantined_records_go(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """Quarantined records are deleted at the same age as rows."""
    run = Run()
    await line.send(run.batch(1, rows(3), arrow_ipc=b"x"), run.batch(2, rows(3), arrow_ipc=b"x"))
    line.query("UPDATE store.quarantine SET received = now() - interval '31 days' WHERE sequence = 1")
    Closed(30).step(upkeep)
    assert line.query("SELECT sequence FROM store.quarantine") == [(2,)]


async def test_rows_and_batches_without_each_other_are_shown(line: Line) -> None:
    """Queries work in the middle of a deletion: on rows without their batch, and on batches without their rows."""
    run = Run()
    await store(line, run, 1)
    await store(line, run, 0, 2)
    line.query("DELETE FROM store.batches WHERE last_time < now() - interval '20 hours'")
    line.query("DELETE FROM fresh.syscall WHERE first_time > now() - interval '20 hours'")
    assert line.query("SELECT count(*), count(task_id), count(comm) FROM scope.syscall") == [(101, 0, 101)]


async def test_packed_days_go_alike(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """Days with packed blocks, fresh ones or both are deleted; the other days keep their texts."""
    run = Run()
    await store(line, run, 5)
    await store(line, run, 6, 2)
    await store(line, run, 1, 3)
    compacted(line, everything=True)
    await store(line, run, 5, 4)
    await store(line, run, 7, 5)
    packed_days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'packed.syscall'::regclass"
    assert line.query(packed_days) == [(3,)]
    retain(upkeep, keep_days=2)
    sweep(upkeep)
    assert {name[-8:] for (name,) in line.query(PARTITIONS)} == {f"{TODAY - timedelta(days=1):%Y%m%d}"}
    assert line.query(packed_days) == [(1,)]
    assert line.query("SELECT count(*), count(comm), count(pid) FROM scope.syscall") == [(101, 101, 101)]
    gone = "SELECT rows, reason FROM scope.dropped WHERE stream = 'syscall' ORDER BY day"
    assert line.query(gone) == [(101, "age"), (101, "age"), (202, "age")]
