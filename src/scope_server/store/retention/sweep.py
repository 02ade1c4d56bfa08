"""The sweep: deletes names, stacks, frames and processes that nothing refers to any more.

Writers cache keys and look up others, so an entry without references may get one at any moment. Therefore the sweep
works in these steps, which may be interrupted anywhere:

1. Entries without references are listed in `store.doomed`, and `store.sweep.number` becomes odd, in one transaction. A
writer that starts later sees the number, forgets its cached keys, and removes the entries that it needs from `doomed`
before it looks them up (`store/writing/dimensions.py`).
2. The sweep waits for transactions of writers that started earlier; each holds a shared lock (`store.enter`).
3. Entries that they now refer to are removed from `doomed`.
4. The rest is deleted, a few rows at a time. Then the number becomes even.

Frames are deleted in a second sweep, after the stacks that referred to them.
"""

import logging
from typing import Any

import psycopg

from scope_server.store.latest.references import references
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout

Connection = psycopg.Connection[tuple[Any, ...]]

_LOCK = 377247  # of store.enter
_CHUNK = 2_000
_EVERY_S = 60.0

_OF_ROWS = ("names", "stacks", "processes")  # kinds that rows refer to
_KINDS = {2: _OF_ROWS, 1: ("frames",)}  # by number of sweeps still to run
_STREAMS = "SELECT DISTINCT ON (stream) stream, columns FROM store.streams ORDER BY stream, version DESC"

_DOOM = """
INSERT INTO store.doomed (kind, id)
SELECT '{kind}', t.id FROM store.{kind} t LEFT JOIN (SELECT DISTINCT id FROM ({used}) u) used ON used.id = t.id
WHERE used.id IS NULL
ON CONFLICT DO NOTHING"""
_SPARE = """
DELETE FROM store.doomed d USING (SELECT DISTINCT id FROM ({used}) u) used WHERE d.kind = '{kind}' AND d.id = used.id"""
# With arrays, so that the index is used: the table has no statistics since the rows were inserted.
_DELETE = """
WITH chosen AS MATERIALIZED (
    SELECT id FROM store.doomed WHERE kind = '{kind}' AND id > {after} ORDER BY id LIMIT {chunk} FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM store.doomed WHERE kind = '{kind}' AND id = ANY(ARRAY(SELECT id FROM chosen)) RETURNING id
)
DELETE FROM store.{kind} WHERE id = ANY(ARRAY(SELECT id FROM gone)) RETURNING id"""
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
        self._after: dict[str, int] = {}  # by kind: all keys up to this one were deleted

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
        kinds = _KINDS.get(due, ())
        if number % 2 == 0:
            return bool(kinds) and self._doom(connection, kinds)
        if not self._waited(connection):
            return False  # waits for a writer; try again later
        if not self._spared:
            for (kind,) in connection.execute("SELECT DISTINCT kind FROM store.doomed").fetchall():
                connection.execute(_SPARE.format(kind=kind, used=_used(connection, kind, self._layout)).encode())
            self._spared = True
            return True
        return self._delete(connection) or connection.execute(_END).rowcount == 1

    def _delete(self, connection: Connection) -> bool:
        # Starts after the last deleted key, to skip dead rows.
        for kind in (*_OF_ROWS, "frames"):
            statement = _DELETE.format(kind=kind, chunk=_CHUNK, after=self._after.get(kind, 0))
            gone = connection.execute(statement.encode()).fetchall()
            if gone:
                self._after[kind] = max(number for (number,) in gone)
                return True
        # Rows locked by a writer are skipped; the writer is removing them from the list.
        self._after.clear()
        return False

    def _doom(self, connection: Connection, kinds: tuple[str, ...]) -> bool:
        with connection.transaction():
            doomed = {
                kind: connection.execute(
                    _DOOM.format(kind=kind, used=_used(connection, kind, self._layout)).encode()
                ).rowcount
                for kind in kinds
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


def _used(connection: Connection, kind: str, layout: Layout) -> str:
    # A query of the keys of this kind that something refers to.
    if kind == "frames":
        return "SELECT unnest(frames) AS id FROM store.stacks"
    of_rows = [
        query.as_string(connection)
        for stream, columns in connection.execute(_STREAMS).fetchall()
        for query in layout.references(stream, columns, kind)
    ]
    of_states = references(connection, kind)
    return " UNION ALL ".join([*of_rows, *([of_states] if of_states else [])])
