"""Stored data per day: the daily tables of all partitioned tables, with their sizes and states; and the log."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

CATALOGUE = ("store", "batches")
SCHEMAS = (
    "fresh",
    "packed",
    "rollups",
    "latest",
    "ranked",
    "store",
)  # all sizes are counted; a day is deleted in this order
_NAME = re.compile(r"(.+)_(\d{8})")  # STREAM_YYYYMMDD

# Sizes in the file system. The name of a detached table shows its day.
_TABLES = """
SELECT n.nspname, c.relname, c.relispartition, coalesce(i.inhdetachpending, false), pg_total_relation_size(c.oid)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'm')"""
_PARTITIONED = """
SELECT n.nspname, c.relname FROM pg_partitioned_table p
JOIN pg_class c ON c.oid = p.partrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY(%s)"""


class State(Enum):
    """Whether a daily table is attached to its partitioned table."""

    ATTACHED = "attached"
    PENDING = "pending"  # a detach was started; queries no longer see the table
    ALONE = "alone"


@dataclass(frozen=True)
class DayTable:
    """A daily table.

    Attributes:
        table: name of its partitioned table, in the same schema.
    """

    schema: str
    name: str
    table: str
    day: date
    bytes: int
    state: State

    @property
    def stream(self) -> str | None:
        """The stream's name; None for the catalogue of batches."""
        return None if self.schema == "store" else self.table

    @property
    def place(self) -> tuple[bool, int, str]:
        """Sort key for the order of deletion: no row outlives the catalogue's entry of its batch."""
        return (self.schema, self.table) == CATALOGUE, SCHEMAS.index(self.schema), self.name


@dataclass(frozen=True)
class Stored:
    """The stored data.

    Attributes:
        bytes: total size, with the write-ahead log.
        wal_bytes: size of that log; 0 if this user may not see it.
        tables: the daily tables.
    """

    bytes: int
    wal_bytes: int
    tables: Collection[DayTable]

    @property
    def days(self) -> dict[date, int]:
        """Bytes per day, oldest first."""
        found: dict[date, int] = {}
        for one in sorted(self.tables, key=lambda one: one.day):
            found[one.day] = found.get(one.day, 0) + one.bytes
        return found

    def of(self, day: date) -> list[DayTable]:
        """The tables of a day, in the order of deletion."""
        return sorted((one for one in self.tables if one.day == day), key=lambda one: one.place)


def measure(connection: Connection) -> Stored:
    """Measures all tables and the write-ahead log; takes milliseconds.

    Raises:
        psycopg.Error: the database went away, or a table is locked for a long time.
    """
    partitioned = set(connection.execute(_PARTITIONED, [list(SCHEMAS)]).fetchall())
    wal = wal_bytes(connection)
    total, tables = wal, []
    for schema, name, attached, pending, size in connection.execute(_TABLES, [list(SCHEMAS)]).fetchall():
        total += size or 0  # None: the table was just dropped
        found = _NAME.fullmatch(name)
        day = _day(found[2]) if found else None
        if size is not None and found and day and (schema, found[1]) in partitioned:
            state = State.PENDING if pending else State.ATTACHED if attached else State.ALONE
            tables.append(DayTable(schema, name, found[1], day, size, state))
    return Stored(total, wal, tables)


def wal_bytes(connection: Connection) -> int:
    """Size of PostgreSQL's write-ahead log, which is that of all its databases; 0 if this user may not see it."""
    if connection.execute("SELECT has_function_privilege('pg_ls_waldir()', 'EXECUTE')").fetchone() != (True,):
        return 0
    (size,) = connection.execute("SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()").fetchone() or (0,)
    return int(size)


def _day(digits: str) -> date | None:
    try:
        return datetime.strptime(digits, "%Y%m%d").date()
    except ValueError:
        return None
