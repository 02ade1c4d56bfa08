"""Deletes the tables of a day without blocking readers and writers; continues after an interruption."""

import logging
from datetime import date, timedelta
from typing import Any

import psycopg

from scope_server.store.layout.contract import Layout
from scope_server.store.retention.days import CATALOGUE, Stored, measure
from scope_server.store.retention.policy import Reason
from scope_server.store.schema.day_tables import detach_and_drop

Connection = psycopg.Connection[tuple[Any, ...]]

_PASSES = 5

_ROWS = "SELECT stream, sum(event_count)::bigint FROM store.batches WHERE last_time >= %s AND last_time < %s GROUP BY 1"
_PLAN = "INSERT INTO store.dropped (day, stream, rows, bytes, reason) VALUES (%s, %s, %s, %s, %s)"
_UNFINISHED = "SELECT DISTINCT day, reason FROM store.dropped WHERE dropped_at IS NULL ORDER BY day"
_DROPPED = """
UPDATE store.dropped SET dropped_at = now() WHERE day = %s AND dropped_at IS NULL
RETURNING stream, rows, bytes, reason"""
# See `Sweep`; a running sweep counts as one more.
_SWEEP = "UPDATE store.sweep SET due = CASE number % 2 WHEN 1 THEN 3 ELSE 2 END"
_log = logging.getLogger(__name__)


def plan(connection: Connection, stored: Stored, day: date, reason: Reason) -> None:
    """Records that a day will be deleted, with its size. From then on the deletion is completed, even after a crash."""
    bytes_: dict[str | None, int] = {}
    for one in stored.of(day):
        bytes_[one.stream] = bytes_.get(one.stream, 0) + one.bytes
    rows: dict[str | None, int] = dict(connection.execute(_ROWS, [day, day + timedelta(days=1)]).fetchall())
    with connection.transaction():
        for stream, size in bytes_.items():
            connection.execute(_PLAN, [day, stream, rows.get(stream, 0), size, reason.value])


def unfinished(connection: Connection) -> list[tuple[date, Reason]]:
    """Recorded days that are not deleted yet."""
    return [(day, Reason(reason)) for day, reason in connection.execute(_UNFINISHED).fetchall()]


def drop(connection: Connection, day: date, layout: Layout) -> list[tuple[str | None, int, int]] | None:
    """Drops all tables of a recorded day.

    Returns:
        Stream, rows and bytes of the deleted tables; None if some tables are still being read.

    Raises:
        psycopg.Error: the database went away.
    """
    # A late row may create a table of the day again while the catalogue's table exists: such a row is deleted too.
    for _ in range(_PASSES):
        stored = measure(connection, layout)
        tables = stored.of(day)
        if not tables:
            return _finish(connection, day)
        drops = {one: layout.drop if one in stored.rows else detach_and_drop for one in tables}
        first = [one for one in tables if (one.schema, one.table) != CATALOGUE]
        # Drops all tables that are free, even if others must wait; but the catalogue always last.
        waits = [one for one in first if not drops[one](connection, one)]
        if waits or not all(drops[one](connection, one) for one in tables if one not in first):
            return None
    return None


def _finish(connection: Connection, day: date) -> list[tuple[str | None, int, int]]:
    with connection.transaction():
        gone = connection.execute(_DROPPED, [day]).fetchall()
        connection.execute(_SWEEP)
    for stream, rows, size, reason in gone:
        about = {"stream": stream or "catalogue", "day": day.isoformat(), "rows": rows, "bytes": size}
        _log.info("day dropped", extra={**about, "reason": reason})
    return [(stream, rows, size) for stream, rows, size, _ in gone]
