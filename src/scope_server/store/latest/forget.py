"""Deletes states with the days of their rows."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

_MOST = 20_000  # rows per statement
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' ORDER BY relname"
# Rows locked by a writer are skipped: the writer is making them newer.
_STATES = """
DELETE FROM latest.{table} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM latest.{table} WHERE time < {before} LIMIT {most} FOR UPDATE SKIP LOCKED))"""
_GROUPS = """
DELETE FROM ranked.{table} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM ranked.{table} WHERE day < {day} AND held = 0 LIMIT {most} FOR UPDATE SKIP LOCKED))"""


def forget(connection: Connection, day: date) -> bool:
    """Deletes some of the states whose newest row is of this day (UTC) or earlier.

    Returns:
        Whether any were deleted; then there may be more.

    Raises:
        psycopg.Error: nothing was deleted.
    """
    before = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    found = False
    for schema, statement in (("latest", _STATES), ("ranked", _GROUPS)):
        for (table,) in connection.execute(_TABLES, [schema]).fetchall():
            names = {"table": sql.Identifier(table), "most": sql.Literal(_MOST)}
            limits = {"before": sql.Literal(before), "day": sql.Literal(before.date())}
            found = connection.execute(sql.SQL(statement).format(**names, **limits)).rowcount > 0 or found
    return found
