"""The sweep: deletes entries of dimensions that nothing refers to any more.

Writers cache keys and look up others, so an entry without references may get one at any moment. Therefore the sweep
works in these steps, which may be interrupted anywhere:

1. Entries without references are listed in `store.doomed`, and `store.sweep.number` becomes odd, in one transaction. A
writer that starts later sees the number, forgets its cached keys, and removes the entries that it needs from `doomed`
before it looks them up (`store/writing/dimensions.py`).
2. The sweep waits for transactions of writers that started earlier; each holds a shared lock (`store.enter`).
3. Entries that they now refer to are removed from `doomed`.
4. The rest is deleted, a few rows at a time. Then the number becomes even.

What others are made of, such as frames, is deleted in a second sweep, after the stacks that referred to them.
"""

import logging
from collections.abc import Sequence
from typing import Any

import psycopg

from scope_server.store.dimensions.declared import of_parts, of_rows
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.latest.references import references
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout

Connection = psycopg.Connection[tuple[Any, ...]]

_LOCK = 377247  # of store.enter
_CHUNK = 2_000
_EVERY_S = 60.0

_SWEPT = {2: of_rows, 1: of_parts}  # by number of sweeps still to run
_STREAMS = "SELECT DISTINCT ON (stream) stream, columns FROM store.streams ORDER BY stream, version DESC"

_DOOM = """
INSERT INTO store.doomed (kind, id)
SELECT '{table}', t.id FROM store.{table} t LEFT JOIN (SELECT DISTINCT id FROM ({used}) u) used ON used.id = t.id
WHERE used.id IS NULL
ON CONFLICT DO NOTHING"""
_SPARE = """
DELETE FROM store.doomed d USING (SELECT DISTINCT id FROM ({used}) u) used
WHERE d.kind = '{table}' AND d.id = used.id"""
# With arrays, so that the index is used: the table has no statistics since the rows were inserted.
_DELETE = """
WITH chosen AS MATERIALIZED (
    SELECT id FROM store.doomed WHERE kind = '{table}' AND id > {after} ORDER BY id LIMIT {chunk} FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM store.doomed WHERE kind = '{table}' AND id = ANY(ARRAY(SELECT id FROM chosen)) RETURNING id
)
DELETE FROM store.{table} WHERE id = ANY(ARRAY(SELECT id FROM gone)) RETURNING id"""
_BEGIN = "UPDATE store.sweep SET number = number + 1 WHERE number % 2 = 0"
_END = """
UPDATE store.sweep SET number = number + 1, due = due - 1
WHERE number % 2 = 1 AND NOT EXISTS (SELECT FROM store.doomed)"""
_HOLDERS = f"""
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'advisory' AND classid = 0 AND objid = {_LOCK} AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_log = logging.getLogger(__name__)


class Sweep:
    """Sweeps when days were dropped. A job of `Upkeep`."""

    name = "sweep"
    every_s = _EVERY_S
    frugal = True
    urgent = False

    def __init__(self, layout: Layout = BLOCKS) -> None:
        self._layout = layout
        self._earlier: set[str] | None = None  # transactions to wait for
        self._spared = False
        self._after: dict[Dimension, int] = {}  # all keys up to this one were deleted

    def begin(self, connection: Connection) -> None:
        """Forgets the state of a running sweep, to read it again."""
        self._earlier, self._spared = None, False
        self._after.clear()

    def end(self) -> None:
        """Nothing to release."""

    def step(self, connection: Connection) -> bool:
        """Runs one step; returns whether more are due.

        Raises:
            psycopg.Error: the step was not done.
        """
        row = connection.execute("SELECT number, due FROM store.sweep").fetchone()
        number, due = row or (0, 0)
        if number % 2 == 0:
            return due in _SWEPT and self._doom(connection, _SWEPT[due]())
        if not self._waited(connection):
            return False  # waits for a writer; try again later
        if not self._spared:
            doomed = {table for (table,) in connection.execute("SELECT DISTINCT kind FROM store.doomed").fetchall()}
            for one in _every():
                if one.table in doomed:
                    used = _used(connection, one, self._layout)
                    connection.execute(_SPARE.format(table=one.table, used=used).encode())
            self._spared = True
            return True
        return self._delete(connection) or connection.execute(_END).rowcount == 1

    def _delete(self, connection: Connection) -> bool:
        # Starts after the last deleted key, to skip dead rows.
        for one in _every():
            statement = _DELETE.format(table=one.table, chunk=_CHUNK, after=self._after.get(one, 0))
            gone = connection.execute(statement.encode()).fetchall()
            if gone:
                self._after[one] = max(number for (number,) in gone)
                return True
        # Rows locked by a writer are skipped; the writer is removing them from the list.
        self._after.clear()
        return False

    def _doom(self, connection: Connection, swept: Sequence[Dimension]) -> bool:
        with connection.transaction():
            doomed = {
                one.table: connection.execute(
                    _DOOM.format(table=one.table, used=_used(connection, one, self._layout)).encode()
                ).rowcount
                for one in swept
            }
            connection.execute(_BEGIN)
        _log.info("sweep begins", extra=doomed)
        self._earlier, self._spared = None, False
        return True

    def _waited(self, connection: Connection) -> bool:
        if self._earlier == set():
            return True
        holders = {holder for (holder,) in connection.execute(_HOLDERS).fetchall()}
        self._earlier = holders if self._earlier is None else self._earlier & holders
        return not self._earlier


def _every() -> tuple[Dimension, ...]:
    return (*of_rows(), *of_parts())


def _used(connection: Connection, one: Dimension, layout: Layout) -> str:
    # A query of the dimension's keys that something refers to.
    used = [
        f"SELECT unnest({whole.content}) AS id FROM store.{whole.table}"
        for whole in of_rows()
        if whole.parts and whole.parts.of is one
    ]
    if one.kind:
        used += [
            query.as_string(connection)
            for stream, columns in connection.execute(_STREAMS).fetchall()
            for query in layout.references(stream, columns, one)
        ]
        of_states = references(connection, one)
        used += [of_states] if of_states else []
    return " UNION ALL ".join(used)
