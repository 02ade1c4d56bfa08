"""A start compares the tables with the streams only if something has changed since the last."""

import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.tables import TABLES, migrated, with_column

from scope_server.store.schema import prepared


def _is_prepared(database: str) -> bool:
    with psycopg.connect(database, autocommit=True) as connection:
        return prepared.is_prepared(connection, TABLES)


def _run(database: str, statement: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_nothing_is_compared_again(database: str) -> None:
    """Nor after rows, statistics, vacuuming and the partitions of days."""
    assert _is_prepared(database)
    _run(database, "INSERT INTO store.names (id, digest, text) VALUES (1, '\\x01', 'x')")
    _run(database, "VACUUM ANALYZE store.names")
    _run(database, "CREATE TABLE fresh.day PARTITION OF fresh.syscall FOR VALUES FROM ('2026-01-01') TO ('2026-01-02')")
    _run(database, "ANALYZE fresh.syscall")
    _run(database, "DROP TABLE fresh.day")
    assert _is_prepared(database)


@pytest.mark.parametrize(
    "change",
    [
        "DROP VIEW scope.syscall CASCADE",
        "DROP FUNCTION scope.python_sample_flames",
        "CREATE OR REPLACE FUNCTION scope.leaks() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE fresh.syscall ADD COLUMN other bigint",
        "ALTER TABLE packed.syscall ALTER COLUMN row_count SET DEFAULT 1",
        "CREATE TABLE scope.other (a integer)",
        "DROP TABLE rollups.syscall",
    ],
)
def test_what_somebody_changed_is_compared(database: str, change: str) -> None:
    """Whatever it is, and until a server has compared it."""
    _run(database, change)
    assert not _is_prepared(database)


def test_what_was_dropped_is_made_again(database: str) -> None:
    """By the next start."""
    _run(database, "DROP VIEW scope.syscall CASCADE")
    migrated(database)
    _run(database, "SELECT FROM scope.syscall; SELECT FROM scope.syscall('2026-01-01')")
    assert _is_prepared(database)


def test_another_version_compares(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with other streams, or other code; afterwards this one does, too."""
    other = with_column("extra", pa.int64())
    with psycopg.connect(database, autocommit=True) as connection:
        assert not prepared.is_prepared(connection, other)
        migrated(database, other)
        assert prepared.is_prepared(connection, other)
        assert not prepared.is_prepared(connection, TABLES)
    migrated(database)
    assert _is_prepared(database)
    monkeypatch.setattr(prepared, "_code", lambda: "other code")
    assert not _is_prepared(database)
