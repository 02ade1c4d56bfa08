"""Migrations: numbered files change a filled database once, and completely or not at all."""

import logging

import psycopg
import pytest
from tests.integration.server.closed_days import compacted
from tests.integration.server.keeping import store
from tests.integration.server.records import STORED, Run, account, lined, stacks
from tests.integration.server.tables import migrated
from tests.integration.server.test_rollups import merge

from scope_server.store.schema import migrate

NEXT = """
ALTER TABLE store.tasks ADD COLUMN note text NOT NULL DEFAULT 'none';
UPDATE store.runs SET error = 'moved' WHERE error IS NULL;
CREATE VIEW scope.notes AS SELECT task_id, note FROM store.tasks;"""
KEPT = (
    "SELECT r::text FROM scope.syscall AS r ORDER BY time, batch, ordinal",
    "SELECT r::text FROM scope.cuda_live AS r ORDER BY time, batch, ordinal",
    "SELECT r::text FROM scope.syscall_minutes('-infinity') AS r ORDER BY 1",
    "SELECT r::text FROM scope.books AS r ORDER BY 1",
    "SELECT r::text FROM scope.losses AS r ORDER BY 1",
    "SELECT r::text FROM store.accounts AS r ORDER BY 1",
    "SELECT r::text FROM latest.cuda_live AS r ORDER BY 1",
)
VERSIONS = "SELECT version FROM store.schema_versions ORDER BY version"


def _kept(conninfo: str) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(conninfo) as connection:
        return [connection.execute(each.encode()).fetchall() for each in KEPT]


@pytest.fixture
async def filled(database: str) -> str:
    """A database with rows in fresh and packed blocks, states, rollups, losses, and open and closed books."""
    async with lined(database) as line:
        open_, over = Run(), Run()
        await line.send(over.start())
        await store(line, over, 3)
        compacted(line)
        merge(line)
        await store(line, open_, 0)
        sent = [
            over.batch(1, stacks(["main;a", "main;b"], live_count=[1, 2], live_bytes=[3, 5]), stream="cuda_live"),
            open_.gap((2, 2, 1009)),
            over.end({"syscall": 1, "cuda_live": 1}, {"syscall": account(101), "cuda_live": account(2)}),
        ]
        assert [answer.verdict for answer in await line.send(*sent)] == [STORED] * 3
    return database


def _with_next(monkeypatch: pytest.MonkeyPatch, *texts: str) -> int:
    """Adds migration files to the server's; returns the number of the first."""
    known = migrate.migrations()
    number = max(known) + 1
    files = {**known, **dict(enumerate(texts, number))}
    monkeypatch.setattr(migrate, "migrations", lambda: files)
    return number


async def test_a_filled_database_is_migrated(
    filled: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A migration runs once, and keeps rows, rollups, states and books."""
    before = _kept(filled)
    assert all(before)
    number = _with_next(monkeypatch, NEXT)
    caplog.set_level(logging.INFO)
    for _ in range(2):
        migrated(filled)
    assert caplog.text.count("schema migrated") == 1
    assert _kept(filled) == before
    with psycopg.connect(filled) as connection:
        assert connection.execute(VERSIONS).fetchall() == [(version,) for version in range(1, number + 1)]
        assert connection.execute("SELECT DISTINCT note FROM scope.notes").fetchall() == [("none",)]
    async with lined(filled) as line:
        await store(line, Run(), 0)
        assert line.query("SELECT count(*) FROM scope.syscall") == [(303,)]


async def test_a_migration_that_fails_changes_nothing(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed migration also undoes the files and statements before it; the old server can still use the database."""
    before = _kept(filled)
    with monkeypatch.context() as patched:
        number = _with_next(patched, NEXT, "DELETE FROM store.losses; SELECT nothing FROM nowhere")
        with pytest.raises(psycopg.errors.UndefinedTable):
            migrated(filled)
    assert _kept(filled) == before
    with psycopg.connect(filled) as connection:
        assert connection.execute(VERSIONS).fetchall() == [(version,) for version in range(1, number)]
        assert connection.execute("SELECT to_regclass('scope.notes')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM store.runs WHERE error = 'moved'").fetchone() == (0,)
    async with lined(filled) as line:
        await store(line, Run(), 0)
