"""Health: the server checks by a real write whether it can store."""

import asyncio
import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.integration.server.records import STORED, Line, Run, lined, rows
from tests.integration.server.running import until

from scope_server.ingest.lane import Lane
from scope_server.store.postgres import PrivatePostgres


async def test_a_check_writes(line: Line) -> None:
    """A health check changes a row, so a database that only answers queries fails it."""
    before = line.query("SELECT beat FROM store.pulse")
    assert await line.writers.check(5) == ""
    assert line.query("SELECT beat FROM store.pulse") > before


async def test_a_database_that_takes_no_writes_is_told(line: Line) -> None:
    """With a read-only database, health says so, also without waiting records; records wait until it accepts writes."""
    name = psycopg.conninfo.conninfo_to_dict(line.conninfo)["dbname"]
    line.query(f"ALTER DATABASE {name} SET default_transaction_read_only = on")  # like a standby
    assert "read-only" in await line.writers.check(5)
    sending = asyncio.create_task(line.send(Run().batch(1, rows(101), emitted=101)))
    said = await until(lambda: line.writers.check(5), lambda found: "holds 1 records since" in found)
    assert "read-only" in said
    assert "bytes wait" in said
    line.query(f"BEGIN READ WRITE; ALTER DATABASE {name} RESET default_transaction_read_only; COMMIT")
    assert [answer.verdict for answer in await sending] == [STORED]
    assert await until(lambda: line.writers.check(5), lambda found: not found) == ""
    assert line.books() == [(101, 101, 0, 0, False)]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk with space for a PostgreSQL and little more."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=420m,mode=700", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


async def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    """On a full disk, health says so and since when; records get no answer until there is space, and all are stored."""
    with PrivatePostgres(small_disk / "pg") as postgres:
        with psycopg.connect(postgres.conninfo()) as connection:
            assert connection.execute("SHOW max_wal_size").fetchone() == ("64MB",)  # much less than the disk has
        async with lined(postgres.conninfo()) as line:
            run, filler = Run(), small_disk / "filler"
            records = [run.batch(n + 1, rows(9973, 9973 * n), emitted=9973 * (n + 1)) for n in range(20)]
            await line.send(records[0])
            _fill(filler)
            sending = asyncio.create_task(line.send(*records[1:]))
            said = await until(lambda: line.writers.check(5), lambda found: "No space left" in found)
            assert "records since" in said
            assert not sending.done()
            filler.unlink()
            assert {answer.verdict for answer in await sending} == {STORED}
            assert await until(lambda: line.writers.check(5), lambda found: not found) == ""
            assert line.books() == [(20 * 9973, 20 * 9973, 0, 0, False)]


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 16))


async def test_a_check_ends_in_time(line: Line) -> None:
    """If the database does not answer, a check says so within its time limit."""
    with psycopg.connect(line.conninfo) as blocker:
        blocker.execute("LOCK TABLE store.pulse IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        assert await line.writers.check(0.5) == "the database did not write within 0.5 s"
        assert time.monotonic() - began < 20


async def test_a_writer_that_ends_is_told(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a writer thread ends, `watch` returns and health names the thread."""
    monkeypatch.setattr(Lane, "_run", lambda _: None)
    async with lined(database, lanes=2) as line:
        async with asyncio.timeout(30):
            await line.writers.watch()
        assert "writer 0 ended; writer 1 ended" in await line.writers.check(5)


async def test_a_stop_leaves_what_cannot_be_written_to_the_agents(database: str) -> None:
    """If the database blocks, a stop ends in time and answers no record; resent records are stored once."""
    async with lined(database) as line:
        records = [Run().batch(1, rows(101)) for _ in range(20)]
        with psycopg.connect(database) as blocker:
            blocker.execute("LOCK TABLE store.accounts IN ACCESS EXCLUSIVE MODE")
            sending = asyncio.create_task(line.send(*records))
            await until(lambda: _held(line), lambda held: held > 0)
            began = time.monotonic()
            await line.writers.stop(0.2)
            assert time.monotonic() - began < 20
            assert not sending.done()
            sending.cancel()
            await asyncio.wait([sending])
    async with lined(database) as line:
        assert {answer.verdict for answer in await line.send(*records)} == {STORED}
        assert line.query("SELECT count(*) FROM scope.syscall") == [(20 * 101,)]


async def _held(line: Line) -> int:
    return line.backlog.held_bytes
