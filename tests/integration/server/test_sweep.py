"""Entries without references are deleted, but never an entry that a concurrent writer refers to."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.integration.server.keeping import ago, retain, store, sweep
from tests.integration.server.records import STORED, Line, Run, lined, rows, stacks

from scope_server.store.dimensions.declared import NAMES, PROCESSES, STACKS
from scope_server.store.retention import Sweep
from scope_server.store.writing.connection import WriterConnection
from scope_server.store.writing.dimensions import Dimensions, Wanted

PROCESS = (1, 12, 500)
EACH: Wanted = {NAMES: {"x"}, STACKS: {"a;b"}, PROCESSES: {PROCESS}}
# A block without rows.
REFER = """
INSERT INTO fresh.syscall (first_time, last_time, row_count, machines, processes, names)
SELECT last_time, last_time, 0, '{{}}', '{{{processes}}}', '{{{names}}}' FROM fresh.syscall LIMIT 1"""
EMPTY = "DELETE FROM fresh.syscall; DELETE FROM packed.syscall; DELETE FROM fresh.cuda_live"


@pytest.fixture
def writer(line: Line) -> Iterator[WriterConnection]:
    """A writer's connection."""
    connection = WriterConnection(line.conninfo)
    yield connection
    connection.close()


def due(upkeep: psycopg.Connection[Any]) -> None:
    """Makes a sweep due, as after a dropped day."""
    upkeep.execute("UPDATE store.sweep SET due = 2")


def key(dimensions: Dimensions, name: str) -> int:
    """The key of a name; the writer's transaction stays open."""
    return dimensions.ensure({NAMES: {name}}, {})[NAMES][name]


def texts(line: Line, number: int) -> list[tuple[str]]:
    return line.query("SELECT text FROM store.names WHERE id = %s", number)


async def test_a_transaction_that_is_under_way_is_waited_for(
    line: Line, upkeep: psycopg.Connection[Any], writer: WriterConnection
) -> None:
    """A sweep waits for open transactions: an entry whose key a writer has looked up, but not used yet, is kept."""
    await store(line, Run(), 0)
    found = key(Dimensions(writer), "x")
    due(upkeep)
    job = Sweep()
    assert job.step(upkeep)
    for _ in range(3):
        assert not job.step(upkeep)
    assert line.query("SELECT id FROM store.doomed WHERE kind = 'names' AND id = %s", found) == [(found,)]
    writer.query(REFER.format(names=found, processes=""))
    writer.commit()
    sweep(upkeep)
    assert texts(line, found) == [("x",)]


async def test_a_writer_takes_what_it_needs_out_of_a_sweep(
    line: Line, upkeep: psycopg.Connection[Any], writer: WriterConnection
) -> None:
    """A writer that starts during a sweep removes the entries that it needs from the sweep's list, so they are kept."""
    await store(line, Run(), 0)
    dimensions = Dimensions(writer)
    dimensions.ensure(EACH, {})
    writer.commit()
    due(upkeep)
    job = Sweep()
    assert job.step(upkeep)  # doomed
    assert job.step(upkeep)  # spared
    doomed = line.query("SELECT count(*) FROM store.doomed")[0][0]
    keys = dimensions.ensure(EACH, {})
    job.step(upkeep)
    names = f"{keys[NAMES]['x']},{keys[STACKS]['a;b']}"
    writer.query(REFER.format(names=names, processes=keys[PROCESSES][PROCESS]))
    writer.commit()
    sweep(upkeep)
    assert doomed >= 3
    assert texts(line, keys[NAMES]["x"]) == [("x",)]
    assert line.query("SELECT store.stack_text(%s)", keys[STACKS]["a;b"]) == [("a;b",)]
    assert line.query("SELECT pid FROM store.processes WHERE id = %s", keys[PROCESSES][PROCESS]) == [(12,)]


async def test_a_sweep_between_keys_and_rows_is_noticed(
    line: Line, upkeep: psycopg.Connection[Any], writer: WriterConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a sweep deletes new entries before the rows that need them are stored, the writer creates them again."""
    commit, commits = writer.commit, []

    def swept_after() -> None:
        commit()
        commits.append(1)
        if len(commits) == 1:
            due(upkeep)
            sweep(upkeep)

    monkeypatch.setattr(writer, "commit", swept_after)
    keys = Dimensions(writer).ensure(EACH, {})
    commit()
    assert len(commits) == 2
    assert texts(line, keys[NAMES]["x"]) == [("x",)]
    assert line.query("SELECT store.stack_text(%s)", keys[STACKS]["a;b"]) == [("a;b",)]
    assert line.query("SELECT count(*) FROM store.processes WHERE id = %s", keys[PROCESSES][PROCESS]) == [(1,)]


async def test_a_sweep_that_was_interrupted_is_completed(
    line: Line, upkeep: psycopg.Connection[Any], writer: WriterConnection
) -> None:
    """Another server completes an interrupted sweep; a day dropped meanwhile gets a sweep of its own."""
    await store(line, Run(), 0)
    dimensions = Dimensions(writer)
    gone = key(dimensions, "x")
    writer.commit()
    due(upkeep)
    Sweep().step(upkeep)
    upkeep.execute("UPDATE store.sweep SET due = 3")
    later = key(Dimensions(writer), "y")
    writer.commit()
    sweep(upkeep)
    assert texts(line, gone) == texts(line, later) == []
    assert line.query("SELECT number, due FROM store.sweep") == [(6, 0)]


async def test_what_nothing_refers_to_is_swept(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """Names, stacks, frames and processes that only dropped days refer to are deleted; others stay."""
    run, kept = Run(), ["main;shared;left"]
    old = rows(11, pid=1, comm=["old"] * 11, name=["gone"] * 11)
    new = rows(11, pid=2, comm=["new"] * 11, name=["read"] * 11)
    sent = [
        run.batch(1, old, boot_to_utc_ns=ago(5)),
        run.batch(2, new),
        run.batch(1, stacks(["main;shared;dropped"], pid=[3]), stream="cuda_live", boot_to_utc_ns=ago(5)),
        run.batch(2, stacks(kept, pid=[4]), stream="cuda_live"),
    ]
    assert {answer.verdict for answer in await line.send(*sent)} == {STORED}
    retain(upkeep, keep_days=2)
    sweep(upkeep)
    names = {text for (text,) in line.query("SELECT text FROM store.names")}
    assert {"new", "read"} <= names
    assert not {"old", "gone"} & names
    assert {pid for (pid,) in line.query("SELECT pid FROM store.processes")} == {2, 4}
    assert line.query("SELECT store.stack_text(id) FROM store.stacks") == [(kept[0],)]
    assert {text for (text,) in line.query("SELECT text FROM store.frames")} == {"main", "shared", "left"}
    assert line.query("SELECT count(*) FROM scope.syscall WHERE comm = 'new' AND pid = 2") == [(11,)]


async def test_a_writer_forgets_what_was_swept(line: Line, upkeep: psycopg.Connection[Any]) -> None:
    """A writer does not use cached keys of entries that a sweep has deleted, so each row keeps its text."""
    run = Run()
    await store(line, run, 5, comm=["x"] * 101, name=["y"] * 101)
    retain(upkeep, keep_days=2)
    sweep(upkeep)
    assert line.query("SELECT count(*) FROM store.names") == [(0,)]
    await store(line, run, 0, 2, comm=["x"] * 101, name=["y"] * 101)
    assert line.query("SELECT count(*) FROM scope.syscall WHERE comm = 'x' AND name = 'y' AND pid = 4711") == [(101,)]


async def test_sweeps_and_writers_go_on_together(database: str) -> None:
    """While sweeps and writers run at the same time, no entry with references is deleted."""
    async with lined(database, lanes=2) as line:
        runs, ended = [Run() for _ in range(2)], asyncio.Event()
        with psycopg.connect(line.conninfo, autocommit=True) as connection:

            def sweep_again() -> None:
                connection.execute("UPDATE store.sweep SET due = 2 WHERE number % 2 = 0")
                sweep(connection)

            async def keep_sweeping() -> int:
                count = 0
                while not ended.is_set():
                    await asyncio.to_thread(sweep_again)
                    count += 1
                return count

            async def keep_writing(run: Run, lane: int) -> None:
                for number in range(60):
                    text, pid = f"text {number % 7}", 100 + number % 5
                    columns = rows(11, 11 * number, pid=pid, comm=[text] * 11, name=[f"{lane}"] * 11)
                    stack = stacks([f"main;{number % 3};{number % 11}"], number, pid=[pid])
                    sent = [run.batch(number + 1, columns), run.batch(number + 1, stack, stream="cuda_live")]
                    assert {answer.verdict for answer in await line.send(*sent)} == {STORED}
                    if number % 10 == 9:  # from here on, no row refers to these entries
                        with contextlib.suppress(psycopg.errors.DeadlockDetected):
                            line.query(EMPTY)

            sweeping = asyncio.create_task(keep_sweeping())
            await asyncio.gather(*(keep_writing(run, number) for number, run in enumerate(runs)))
            ended.set()
            assert await sweeping > 3
        dangling = "SELECT count(*) FROM scope.syscall WHERE comm IS NULL OR name IS NULL OR pid IS NULL"
        assert line.query(dangling) == [(0,)]
        lost = """
            SELECT count(*) FROM scope.cuda_live
            WHERE stack IS NULL OR array_length(string_to_array(stack, ';'), 1) <> 3 OR pid IS NULL"""
        assert line.query(lost) == [(0,)]
