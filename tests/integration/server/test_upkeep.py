"""Background work: jobs run in turn, with a limited share of CPU, also if others fail, and stop quickly."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.integration.server.running import until

from scope_server.store.upkeep.upkeep import Upkeep


class Disk:
    """A disk with settable shortage."""

    short = False


class Job:
    """A job that counts its steps and runs the given function in each."""

    urgent = False
    every_s = 0.05

    def __init__(self, name: str, step: Callable[[psycopg.Connection[Any]], bool], frugal: bool = False) -> None:
        self.name, self.frugal, self._step = name, frugal, step
        self.steps = self.begun = 0
        self.ended = False

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        self.begun += 1

    def end(self) -> None:
        self.ended = True

    def step(self, connection: psycopg.Connection[Any]) -> bool:
        self.steps += 1
        return self._step(connection)


@asynccontextmanager
async def running(upkeep: Upkeep) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(upkeep.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ArithmeticError):
            await task


async def steps(job: Job) -> int:
    return job.steps


async def test_a_frugal_job_rests(database: str) -> None:
    """A frugal job pauses after each step to keep its share of time; other jobs run during the pauses."""

    def sleep(_: psycopg.Connection[Any]) -> bool:
        time.sleep(0.1)
        return True

    frugal, other = Job("frugal", sleep, frugal=True), Job("other", lambda _: False)
    began = time.monotonic()
    async with running(Upkeep(database, [other, frugal], Disk(), share=0.2)):
        await until(lambda: steps(frugal), lambda count: count >= 4)
        assert time.monotonic() - began > 3 * 0.5 * 0.9
        assert other.steps > frugal.steps


async def test_a_short_disk_stops_what_can_wait(database: str) -> None:
    """While disk space is short, frugal jobs wait and other jobs run."""
    disk = Disk()
    disk.short = True
    frugal, other = Job("frugal", lambda _: False, frugal=True), Job("other", lambda _: False)
    async with running(Upkeep(database, [frugal, other], disk)):
        await until(lambda: steps(other), lambda count: count > 2)
        assert frugal.steps == 0
        disk.short = False
        await until(lambda: steps(frugal), lambda count: count > 0)


async def test_a_job_that_fails_is_told_and_tried_again(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """A job that fails is logged and retried; the other jobs run."""

    def fail(connection: psycopg.Connection[Any]) -> bool:
        if failing.steps < 3:
            connection.execute("SELECT 1 FROM nonsense")
        return False

    failing, other = Job("failing", fail), Job("other", lambda _: False)
    upkeep = Upkeep(database, [failing, other], Disk())
    async with running(upkeep):
        await until(lambda: steps(failing), lambda count: count > 0)
        await until(lambda: steps(failing), lambda count: count > 3)
        assert other.steps > 0
        assert upkeep.problems == {}
        assert "upkeep failed" in caplog.text


async def test_a_lost_connection_is_made_anew(database: str) -> None:
    """After a lost connection, upkeep opens a new one and calls `begin` of its jobs again."""

    def leave(connection: psycopg.Connection[Any]) -> bool:
        if job.steps == 1:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return False

    job = Job("job", leave)
    async with running(Upkeep(database, [job], Disk())):
        await until(lambda: steps(job), lambda count: count >= 3)
        assert job.begun == 2


async def test_a_fault_of_ours_ends_it(database: str) -> None:
    """An unexpected exception of a job ends upkeep, and `run` raises it."""

    def fail(_: psycopg.Connection[Any]) -> bool:
        raise ArithmeticError("no such luck")

    with pytest.raises(ArithmeticError, match="no such luck"):
        await asyncio.wait_for(Upkeep(database, [Job("job", fail)], Disk()).run(), 60)


async def test_a_stop_ends_the_step_that_runs(database: str) -> None:
    """A stop cancels the running statement, and ends the job."""

    def last(connection: psycopg.Connection[Any]) -> bool:
        connection.execute("SELECT pg_sleep(600)")
        return False

    job = Job("job", last)
    async with running(Upkeep(database, [job], Disk())):
        await until(lambda: steps(job), bool)
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert job.ended
    with psycopg.connect(database) as connection:
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'scope upkeep' AND state = 'active'"
        assert connection.execute(left).fetchone() == (0,)


async def test_a_database_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Without a database, upkeep keeps trying and logs it; no job runs."""
    job = Job("job", lambda _: False)
    async with running(Upkeep("host=/nonsense dbname=none", [job], Disk())) as task:
        await until(lambda: _said(caplog), lambda text: text.count("upkeep waits for the database") >= 2)
        assert not task.done()
        assert job.steps == 0


async def _said(caplog: pytest.LogCaptureFixture) -> str:
    return caplog.text
