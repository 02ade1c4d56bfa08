"""What is stored, by day: every table of a day of every partitioned table, and what state it is in."""

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
)  # of which all is counted; in this order a day goes
_NAME = re.compile(r"(.+)_(\d{8})")  # STREAM_YYYYMMDD

# Sizes as the file system has them. A table that is not attached any more is a day's by its name.
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
    """How a day's table and its partitioned table hang together."""

    ATTACHED = "attached"
    PENDING = "pending"  # a detach was begun; queries do not see it any more
    ALONE = "alone"


@dataclass(frozen=True)
class DayTable:
    """A table of a day.

    Attributes:
        table: the partitioned table that it is of, in the same schema.
    """

    schema: str
    name: str
    table: str
    day: date
    bytes: int
    state: State

    @property
    def stream(self) -> str | None:
        """Whose it is; None for the catalogue."""
        return None if self.schema == "store" else self.table

    @property
    def place(self) -> tuple[bool, int, str]:
        """In the order in which tables of a day go: no row outlives the catalogue's entry of its batch."""
        return (self.schema, self.table) == CATALOGUE, SCHEMAS.index(self.schema), self.name


@dataclass(frozen=True)
class Stored:
    """What is stored: all bytes, and the tables of days."""

    bytes: int
    tables: Collection[DayTable]

    @property
    def days(self) -> dict[date, int]:
        """Bytes by day, the oldest first."""
        found: dict[date, int] = {}
        for one in sorted(self.tables, key=lambda one: one.day):
            found[one.day] = found.get(one.day, 0) + one.bytes
        return found

    def of(self, day: date) -> list[DayTable]:
        """The tables of a day, in the order in which they go."""
        return sorted((one for one in self.tables if one.day == day), key=lambda one: one.place)


def measure(connection: Connection) -> Stored:
    """Looks at all tables; takes milliseconds.

    Raises:
        psycopg.Error: the database went away, or somebody has locked a table for long.
    """
    partitioned = set(connection.execute(_PARTITIONED, [list(SCHEMAS)]).fetchall())
    total, tables = 0, []
    for schema, name, attached, pending, size in connection.execute(_TABLES, [list(SCHEMAS)]).fetchall():
        total += size or 0  # none: it was dropped at this moment
        found = _NAME.fullmatch(name)
        day = _day(found[2]) if found else None
        if size is not None and found and day and (schema, found[1]) in partitioned:
            state = State.PENDING if pending else State.ATTACHED if attached else State.ALONE
            tables.append(DayTable(schema, name, found[1], day, size, state))
    return Stored(total, tables)


def _day(digits: str) -> date | None:
    try:
        return datetime.strptime(digits, "%Y%m%d").date()
    except ValueError:
        return None
