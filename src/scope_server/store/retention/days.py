"""Stored data per day: the daily tables of rows and of all other partitioned tables, with their sizes; and the log."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

import psycopg

from scope_server.store.layout.contract import Layout
from scope_server.store.schema.day_tables import DayTable, measured

Connection = psycopg.Connection[tuple[Any, ...]]

CATALOGUE = ("store", "batches")
_BESIDE = ("rollups", "latest", "ranked", "store")  # schemas besides those of rows


@dataclass(frozen=True)
class Stored:
    """The stored data.

    Attributes:
        bytes: total size, with the write-ahead log.
        wal_bytes: size of that log; 0 if this user may not see it.
        rows: the daily tables of rows.
        beside: all other daily tables.
    """

    bytes: int
    wal_bytes: int
    rows: Collection[DayTable]
    beside: Collection[DayTable]

    @property
    def days(self) -> dict[date, int]:
        """Bytes per day, oldest first."""
        found: dict[date, int] = {}
        for one in sorted([*self.rows, *self.beside], key=lambda one: one.day):
            found[one.day] = found.get(one.day, 0) + one.bytes
        return found

    def of(self, day: date) -> list[DayTable]:
        """The tables of a day, in the order of deletion: no row outlives the catalogue's entry of its batch."""
        rows = sorted((one for one in self.rows if one.day == day), key=lambda one: (one.schema, one.name))
        beside = sorted((one for one in self.beside if one.day == day), key=_place)
        return [*rows, *beside]


def measure(connection: Connection, layout: Layout) -> Stored:
    """Measures all tables and the write-ahead log; takes milliseconds.

    Raises:
        psycopg.Error: the database went away, or a table is locked for a long time.
    """
    wal, rows, beside = wal_bytes(connection), layout.measured(connection), measured(connection, _BESIDE)
    return Stored(wal + rows.bytes + beside.bytes, wal, rows.days, beside.days)


def wal_bytes(connection: Connection) -> int:
    """Size of PostgreSQL's write-ahead log, which is that of all its databases; 0 if this user may not see it."""
    if connection.execute("SELECT has_function_privilege('pg_ls_waldir()', 'EXECUTE')").fetchone() != (True,):
        return 0
    (size,) = connection.execute("SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()").fetchone() or (0,)
    return int(size)


def _place(one: DayTable) -> tuple[bool, int, str]:
    return (one.schema, one.table) == CATALOGUE, _BESIDE.index(one.schema), one.name
