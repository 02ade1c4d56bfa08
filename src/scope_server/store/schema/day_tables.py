"""The tables of each day: their sizes, and how one is dropped without blocking readers and writers."""

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]

# A detach waits for current readers and writers, without blocking new ones. Only its last step blocks writers that
# create the partition of a new day.
_DETACH_S = 3
_FINISH_S = 1
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

_log = logging.getLogger(__name__)


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
    state: State = State.ATTACHED

    @property
    def stream(self) -> str | None:
        """The stream's name; None for the catalogue of batches."""
        return None if self.schema == "store" else self.table


@dataclass(frozen=True)
class Measured:
    """Tables of some schemas.

    Attributes:
        bytes: size of all of them.
        days: the daily ones.
    """

    bytes: int
    days: Collection[DayTable]


def measured(connection: Connection, schemas: Collection[str]) -> Measured:
    """Measures all tables of these schemas; takes milliseconds.

    Raises:
        psycopg.Error: the database went away, or a table is locked for a long time.
    """
    partitioned = set(connection.execute(_PARTITIONED, [list(schemas)]).fetchall())
    total, tables = 0, []
    for schema, name, attached, pending, size in connection.execute(_TABLES, [list(schemas)]).fetchall():
        total += size or 0  # None: the table was just dropped
        found = _NAME.fullmatch(name)
        day = _day(found[2]) if found else None
        if size is not None and found and day and (schema, found[1]) in partitioned:
            state = State.PENDING if pending else State.ATTACHED if attached else State.ALONE
            tables.append(DayTable(schema, name, found[1], day, size, state))
    return Measured(total, tables)


def detach_and_drop(connection: Connection, one: DayTable) -> bool:
    """Drops a daily table; returns whether nobody was reading it.

    Raises:
        psycopg.Error: the database went away.
    """
    parent, table = sql.Identifier(one.schema, one.table), sql.Identifier(one.schema, one.name)
    detach = sql.SQL("ALTER TABLE {} DETACH PARTITION {} {}")
    try:
        if one.state is State.ATTACHED:
            patient(connection, _DETACH_S)
            connection.execute(detach.format(parent, table, sql.SQL("CONCURRENTLY")))
        elif one.state is State.PENDING:
            patient(connection, _FINISH_S)
            connection.execute(detach.format(parent, table, sql.SQL("FINALIZE")))
        patient(connection, _DETACH_S)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.ObjectNotInPrerequisiteState) as error:
        # The second error: another day of this table still waits for its readers.
        in_use(one, error)
        return False
    return True


def patient(connection: Connection, seconds: int) -> None:
    """From now on, the connection waits so long for a lock."""
    connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(f"{seconds}s")))


def in_use(one: DayTable, error: psycopg.Error) -> None:
    """Logs that a daily table cannot be dropped yet."""
    _log.info("a day's table is in use", extra={"table": one.name, "reason": str(error).splitlines()[0]})


def _day(digits: str) -> date | None:
    try:
        return datetime.strptime(digits, "%Y%m%d").date()
    except ValueError:
        return None
