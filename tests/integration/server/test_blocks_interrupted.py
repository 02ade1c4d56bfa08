"""No row is lost or duplicated, whatever interrupts the packing of blocks."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.closed_days import LONG_AGO, compacted, fresh, packed, shown
from tests.integration.server.keeping import retain, store
from tests.integration.server.records import STORED, Line, Run, lined, rows
from tests.integration.server.tables import with_column

from scope_server.errors import StoreUnavailable
from scope_server.store.layout.blocks import compaction, packing
from scope_server.store.layout.blocks.compaction import Compaction
from scope_server.store.writing.connection import DataRefused, WriterConnection

WAITING = """
SELECT count(*) FROM pg_locks
WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
DAYS = """
SELECT count(DISTINCT right(c.relname, 8)) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE c.relkind = 'r'"""
EACH_ONCE = "SELECT count(*), count(DISTINCT (batch, ordinal)) FROM scope.syscall"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks and steps so small that few rows need many of them."""
    monkeypatch.setattr(packing, "BLOCK_ROWS", 70)
    monkeypatch.setattr(compaction, "STEP_ROWS", 200)


class Interrupted(WriterConnection):
    """A connection that calls `interrupt` before one of its statements, ingests and commits.

    Args:
        left: the number of that one, counted from 1.
    """

    def __init__(self, conninfo: str, left: int, interrupt: Callable[["Interrupted"], None]) -> None:
        super().__init__(conninfo)
        self.conninfo, self.left, self._interrupt = conninfo, left, interrupt

    def table(self, *given: Any, **named: Any) -> pa.Table:
        self._count()
        return super().table(*given, **named)

    def ingest(self, *given: Any, **named: Any) -> None:
        self._count()
        super().ingest(*given, **named)

    def commit(self) -> None:
        self._count()
        super().commit()

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._interrupt(self)


def _when(true: Callable[[], bool]) -> None:
    # Waits until it is true.
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


class Killed(Exception):
    """The server died."""


def _kill(connection: Interrupted) -> None:
    connection.close()
    raise Killed


def _terminate(connection: Interrupted) -> None:
    (row,) = connection.query("SELECT pg_backend_pid() AS pid")
    with psycopg.connect(connection.conninfo, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 60000)", [row["pid"]])


def _roll_back(connection: Interrupted) -> None:
    connection.rollback()
    raise Killed


async def _seven_batches(line: Line) -> list[tuple[Any, ...]]:
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n), boot_to_utc_ns=LONG_AGO) for n in range(7)])
    return shown(line)


@pytest.mark.parametrize("interrupt", [_kill, _terminate, _roll_back])
async def test_it_is_interrupted_anywhere(line: Line, interrupt: Callable[[Interrupted], None]) -> None:
    """An interruption at any statement leaves the rows unchanged, and the next attempt continues."""
    before, statement, went_on = await _seven_batches(line), 0, set()
    while fresh(line)[1]:
        statement += 1
        connection = Interrupted(line.conninfo, statement, interrupt)
        work = Compaction(["syscall"])  # a new server each time
        with suppress(Killed, StoreUnavailable):
            while work.step(connection):
                pass
        connection.close()
        assert shown(line) == before
        assert fresh(line)[1] + packed(line)[1] == 707
        went_on.add(fresh(line)[1])
    assert statement > 8
    assert len(went_on) > 1
    assert shown(line) == before


async def test_it_is_killed_at_random(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills at random moments, also within statements, lose or duplicate no row; in the end, all are packed."""
    monkeypatch.setattr(compaction, "STEP_ROWS", 1)
    run, chance, ended = Run(), random.Random(5), threading.Event()
    for number in range(11):
        await line.send(run.batch(number + 1, rows(997, 997 * number), boot_to_utc_ns=LONG_AGO))
    before, deaths = shown(line), 0
    kill = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'scope packer'"

    def keep_killing() -> None:
        """Less and less often, so that the work ends on a slow machine, too."""
        longest_s = 0.05
        with psycopg.connect(line.conninfo, autocommit=True) as connection:
            while not ended.wait(chance.uniform(0, longest_s)):
                connection.execute(kill)
                longest_s *= 1.02

    killer = threading.Thread(target=keep_killing)
    killer.start()
    try:
        while fresh(line)[1]:
            try:
                connection = WriterConnection(f"{line.conninfo} application_name='scope packer'")
                work = Compaction(["syscall"])
                while work.step(connection):
                    pass
            except StoreUnavailable:
                deaths += 1
    finally:
        ended.set()
        killer.join()
        connection.close()
    assert deaths > 0
    assert packed(line)[1] == 10_967
    assert shown(line) == before


async def test_late_rows_come_between_any_two_steps(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that arrive between two steps are visible at once, and packed later."""
    monkeypatch.setattr(compaction, "_LATE_AGAIN_S", 0)
    await _seven_batches(line)
    run, work, connection, count = Run(), Compaction(["syscall"]), WriterConnection(line.conninfo), 707
    for number in range(40):
        work.step(connection)
        late = run.batch(number + 1, rows(101, 50 * number), boot_to_utc_ns=LONG_AGO)
        assert [answer.verdict for answer in await line.send(late)] == [STORED]
        count += 101
        assert line.query(EACH_ONCE) == [(count, count)]
    connection.close()
    assert packed(line)[1] > 707
    compacted(line)
    assert (fresh(line)[1], packed(line)[1]) == (0, count)


async def test_writers_and_several_packers_go_on(database: str) -> None:
    """While six runs write and two threads pack, queries see each row once, and all rows are stored once."""
    async with lined(database, lanes=3) as line:
        done = threading.Event()
        seen: list[tuple[int, int]] = []

        def keep_packing() -> int:
            connection, work, steps = WriterConnection(database), Compaction(["syscall"]), 0
            while not done.is_set():
                steps += work.step(connection, everything=True)
            connection.close()
            return steps

        def keep_reading() -> None:
            while not done.is_set():
                ((count, distinct),) = line.query(EACH_ONCE)
                seen.append((count, distinct))

        async def write(run: Run) -> None:
            for number in range(1, 31):
                answers = await line.send(run.batch(number, rows(101, 50 * number)))
                assert [answer.verdict for answer in answers] == [STORED]

        packers = [asyncio.create_task(asyncio.to_thread(keep_packing)) for _ in range(2)]
        reader = asyncio.create_task(asyncio.to_thread(keep_reading))
        try:
            await asyncio.gather(*(write(Run()) for _ in range(6)))
        finally:
            done.set()
            steps = await asyncio.gather(*packers)
            await reader
        assert min(steps) > 5
        assert len(seen) > 5
        assert [count for count, distinct in seen if count != distinct] == []
        assert [count for count, _ in seen] == sorted(count for count, _ in seen)
        compacted(line, everything=True)
        assert line.query(EACH_ONCE) == [(18_180, 18_180)]
        assert (fresh(line), packed(line)[1]) == ((0, 0), 18_180)


@pytest.mark.parametrize("statement", range(1, 12))
async def test_a_column_comes_meanwhile(database: str, statement: int) -> None:
    """If a newer server adds a column and writes to it at any point of a step, its values are kept."""
    added = with_column("added", pa.int64())
    late = Run().batch(1, rows(103).append_column("added", pa.array(range(103))), boot_to_utc_ns=LONG_AGO)

    async def upgrade() -> None:
        async with lined(database, tables=added) as newer:
            assert [answer.verdict for answer in await newer.send(late)] == [STORED]

    async with lined(database) as line:
        await line.send(Run().batch(1, rows(101), boot_to_utc_ns=LONG_AGO))
        loop, upgrades = asyncio.get_running_loop(), []

        def start(_: Interrupted) -> None:
            upgrades.append(asyncio.run_coroutine_threadsafe(upgrade(), loop))
            _when(lambda: upgrades[0].done() or line.query(WAITING) != [(0,)])

        def pack() -> None:
            connection, work = Interrupted(database, statement, start), Compaction(["syscall"])
            while work.step(connection, everything=True):
                pass
            connection.close()

        await asyncio.to_thread(pack)
        if not upgrades:
            assert statement > 8
            return
        await asyncio.wrap_future(upgrades[0])
        compacted(line, everything=True)
        asked = "SELECT count(*), count(added), sum(added)::bigint FROM scope.syscall"
        assert line.query(asked) == [(204, 103, 5253)]
        assert (fresh(line)[1], packed(line)[1]) == (0, 204)


@pytest.mark.parametrize("statement", range(1, 12))
async def test_a_day_is_dropped_meanwhile(line: Line, upkeep: psycopg.Connection[Any], statement: int) -> None:
    """If retention drops a day at any point of a step, the step may fail, but the other days are packed."""
    for days in (3, 1):
        await store(line, Run(), days)
    work, drops = Compaction(["syscall"]), []

    def drop(_: Interrupted) -> None:
        drops.append(retain(upkeep, keep_days=2))

    connection = Interrupted(line.conninfo, statement, drop)
    with suppress(DataRefused):
        while work.step(connection, everything=True):
            pass
    if not drops:
        assert statement > 8
    retain(upkeep, keep_days=2)
    while work.step(connection, everything=True):
        pass
    connection.close()
    assert (fresh(line), packed(line)) == ((0, 0), (1, 101))
    assert line.query(EACH_ONCE) == [(101, 101)]
    assert line.query(DAYS) == [(1,)]
