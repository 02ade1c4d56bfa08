"""Closed days become blocks, step by step: whenever it is interrupted, what is left is done later."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Optional

import psycopg
from psycopg import sql

from scope_server.store.blocks.move import BLOCK_ROWS, Connection, move_pages, move_time
from scope_server.store.columns import StreamTable
from scope_server.store.partitions import Partition, making

_CLOSED_AFTER = timedelta(hours=1)
_STEP_ROWS = 8 * BLOCK_ROWS
_SWEPT_PAGES = 4096  # at a time, 32 MiB
_SWEEPS = 3
_AGAIN_S = 3600.0  # so that late rows of a day make few small blocks
_AFTER_ERROR_S = 300.0
_BUSY_S = 60.0
_LOCK_MS = 300  # whoever uses the table waits so long at most
_MICROSECOND = timedelta(microseconds=1)

_PARTITIONS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass(format('events.%%I', %s::text)) AND NOT i.inhdetachpending"""
_ATTACHED = """
SELECT 1 FROM pg_inherits
WHERE inhrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND NOT inhdetachpending"""
_SUMMARIZE = """
SELECT brin_summarize_new_values(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'brin' AND i.indrelid = to_regclass(format('%%I.%%I', %s::text, %s::text))"""
_UNTIL = """
SELECT last_time
FROM (SELECT last_time, sum(event_count) OVER (ORDER BY last_time ROWS UNBOUNDED PRECEDING) AS events
      FROM store.batches WHERE stream = %s AND last_time >= %s AND last_time < %s) AS b
WHERE events >= %s
ORDER BY last_time
LIMIT 1"""
_PAGES = """
SELECT pg_relation_size(to_regclass(format('%%I.%%I', %s::text, %s::text))) / current_setting('block_size')::integer"""
_KNOWN = """
SELECT count(*), coalesce(sum(id), 0) FROM store.batches
WHERE stream = %s AND tstzrange(first_time, last_time, '[]') && tstzrange(%s, %s, '[)') AND last_time >= %s"""

_log = logging.getLogger(__name__)
_Step = Callable[[Connection], Optional["_Step"]]


class Compaction:
    """Makes blocks of all closed days of some streams. What it remembers only saves work. For one thread.

    Args:
        closed_after: a day's end; what comes later is taken by and by.
    """

    def __init__(self, tables: Mapping[str, StreamTable], closed_after: timedelta = _CLOSED_AFTER) -> None:
        self._tables = tables
        self._closed_after = closed_after
        self._day: _Day | None = None
        self._not_before: dict[Partition, float] = {}

    def step(self, connection: Connection) -> bool:
        """Does a part of the work that is there, of about a second at most; whether there is more.

        Args:
            connection: in autocommit mode.

        Raises:
            psycopg.Error: the step failed, and nothing of it was done. Its day is left alone for some minutes.
        """
        if self._day is None:
            self._day = self._next(connection)
        day = self._day
        if day is None:
            return False
        try:
            more = day.step(connection)
        except psycopg.Error:
            self._day, self._not_before[day.partition] = None, time.monotonic() + _AFTER_ERROR_S
            raise
        if not more:
            self._day, self._not_before[day.partition] = None, time.monotonic() + (_AGAIN_S if day.quiet else _BUSY_S)
        return True

    def _next(self, connection: Connection) -> "_Day | None":
        now = time.monotonic()
        self._not_before = {one: until for one, until in self._not_before.items() if until > now}
        closed = datetime.now(UTC) - self._closed_after
        found = [
            one
            for one in partitions(connection, self._tables)
            if _begin(one.day) + timedelta(days=1) <= closed and one not in self._not_before
        ]
        return _Day(min(found, key=lambda one: one.day)) if found else None


def compact(connection: Connection, tables: Mapping[str, StreamTable], days: Collection[date]) -> None:
    """Makes blocks of all rows of these days at once, closed or not.

    Args:
        connection: in autocommit mode.

    Raises:
        psycopg.Error: it failed; some of the rows may be in blocks.
    """
    for one in partitions(connection, tables):
        if one.day in days:
            day = _Day(one)
            while day.step(connection):
                pass


def partitions(connection: Connection, tables: Collection[str]) -> list[Partition]:
    """The days of which streams have rows that lie singly."""
    found = []
    for table in sorted(tables):
        for (name,) in connection.execute(_PARTITIONS, [table]):
            with_day = name.removeprefix(f"{table}_")
            if len(with_day) == 8 and with_day.isdecimal():
                found.append(Partition("events", table, datetime.strptime(with_day, "%Y%m%d").date()))
    return found


class _Day:
    # One partition, from its first step to its end. Each step says which one follows.

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.quiet = True  # nobody was in the way
        self._next: _Step | None = self._prepare
        self._since = _begin(partition.day)
        self._end = self._since + timedelta(days=1)
        self._page = 0
        self._known: tuple[Any, ...] | None = None
        self._sweeps = self._rows = 0

    def step(self, connection: Connection) -> bool:
        """Whether there is another one."""
        try:
            self._next = self._next(connection) if self._next else None
        except psycopg.errors.LockNotAvailable:
            self.quiet, self._next = False, None
        except psycopg.errors.UndefinedTable:  # somebody has dropped the day
            self._next = None
        return self._next is not None

    def _prepare(self, connection: Connection) -> _Step | None:
        target = Partition("blocks", self.partition.table, self.partition.day)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('scope.partitions'))")
            if not connection.execute(_ATTACHED, [target.schema, target.name]).fetchone():
                for statement in making(target):
                    connection.execute(statement.encode())
        with connection.transaction():
            # Vacuum would look again and again at what is dropped in the end.
            connection.execute(_limited())
            connection.execute(
                sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(_identifier(self.partition))
            )
            connection.execute(_SUMMARIZE, [self.partition.schema, self.partition.name])
        return self._move if self._pages(connection) > _SWEPT_PAGES else self._sweep

    def _move(self, connection: Connection) -> _Step | None:
        table = self.partition.table
        found = connection.execute(_UNTIL, [table, self._since, self._end, _STEP_ROWS]).fetchone()
        until = found[0] + _MICROSECOND if found else self._end
        self._rows += move_time(connection, self.partition, self._since, until)
        self._since = until
        return self._move if until < self._end else self._sweep

    def _sweep(self, connection: Connection) -> _Step | None:
        # All that is left: what came meanwhile, and what the catalogue of batches does not know.
        if self._page == 0:
            self._sweeps += 1
            self._known = self._known_batches(connection)
        last = self._page + _SWEPT_PAGES
        self._rows += move_pages(connection, self.partition, self._page, last)
        self._page = last if last < self._pages(connection) else 0
        return self._sweep if self._page else self._drop

    def _drop(self, connection: Connection) -> _Step | None:
        with connection.transaction():
            connection.execute(_limited())
            parent = sql.Identifier(self.partition.schema, self.partition.table)
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE").format(parent))
            # No writer is at it now; a batch that came after the sweep began may have rows here.
            if self._known_batches(connection) != self._known:
                return self._sweep if self._sweeps < _SWEEPS else None
            connection.execute(sql.SQL("DROP TABLE {}").format(_identifier(self.partition)))
        about = {"table": self.partition.table, "day": self.partition.day.isoformat(), "rows": self._rows}
        _log.info("day in blocks", extra=about)
        return None

    def _known_batches(self, connection: Connection) -> tuple[Any, ...] | None:
        begin = _begin(self.partition.day)
        return connection.execute(_KNOWN, [self.partition.table, begin, self._end, begin]).fetchone()

    def _pages(self, connection: Connection) -> int:
        found = connection.execute(_PAGES, [self.partition.schema, self.partition.name]).fetchone()
        return int(found[0] or 0) if found else 0


def _begin(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _identifier(partition: Partition) -> sql.Identifier:
    return sql.Identifier(partition.schema, partition.name)


def _limited() -> bytes:
    return f"SET LOCAL lock_timeout = {_LOCK_MS}".encode()
