"""Takes away what rows referred to and nothing refers to any more: names, stacks, frames, processes.

Writers remember keys, and others are just looked up, so a row that nothing refers to now may be referred to in a
moment. Hence, in steps that may be interrupted anywhere:

1. What nothing refers to is entered in `store.doomed`, and `store.sweep.number` becomes odd, in one transaction.
   A writer that begins later sees the number, forgets its keys, and takes what it needs out of `doomed` before it looks
   it up (`store/writing/dimensions.py`).
2. Transactions of writers that began earlier are waited for; each holds a shared lock (`store.enter`).
3. What they have come to refer to is taken out of `doomed`.
4. The rest is deleted, a few rows at a time, and the number becomes even.

Frames are a sweep of their own, after the stacks that referred to them are gone.
"""

import logging
from typing import Any

import psycopg

from scope_server.store.blocks.layout import FRESH, PACKED
from scope_server.store.latest.references import references

Connection = psycopg.Connection[tuple[Any, ...]]

_LOCK = 377247  # of store.enter
_CHUNK = 2_000
_EVERY_S = 60.0

# What a block refers to is in arrays. Names and stacks share one, and the sequence that their keys are drawn from.
_HELD = {"names": "names", "stacks": "names", "processes": "processes"}
_KINDS = {2: tuple(_HELD), 1: ("frames",)}  # by how many sweeps are left
_STREAMS = "SELECT DISTINCT stream FROM store.streams ORDER BY stream"

_DOOM = """
INSERT INTO store.doomed (kind, id)
SELECT '{kind}', t.id FROM store.{kind} t LEFT JOIN (SELECT DISTINCT id FROM ({used}) u) used ON used.id = t.id
WHERE used.id IS NULL
ON CONFLICT DO NOTHING"""
_SPARE = """
DELETE FROM store.doomed d USING (SELECT DISTINCT id FROM ({used}) u) used WHERE d.kind = '{kind}' AND d.id = used.id"""
# As arrays, so that the index is used: nobody has counted the rows since they were entered.
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

    def __init__(self) -> None:
        self._earlier: set[str] | None = None  # transactions that are waited for
        self._spared = False
        self._after: dict[str, int] = {}  # of each kind, all up to this key were deleted

    def begin(self, connection: Connection) -> None:
        """Whatever was known of a sweep that is under way is looked at again."""
        self._earlier, self._spared = None, False
        self._after.clear()

    def end(self) -> None:
        """It holds nothing."""

    def step(self, connection: Connection) -> bool:
        """One step; whether more are due now.

        Raises:
            psycopg.Error: the step was not done.
        """
        row = connection.execute("SELECT number, due FROM store.sweep").fetchone()
        number, due = row or (0, 0)
        kinds = _KINDS.get(due, ())
        if number % 2 == 0:
            return bool(kinds) and self._doom(connection, kinds)
        if not self._waited(connection):
            return False  # for a writer: until the next time
        if not self._spared:
            for (kind,) in connection.execute("SELECT DISTINCT kind FROM store.doomed").fetchall():
                connection.execute(_SPARE.format(kind=kind, used=_used(connection, kind)).encode())
            self._spared = True
            return True
        return self._delete(connection) or connection.execute(_END).rowcount == 1

    def _delete(self, connection: Connection) -> bool:
        # From where the last step came to, so that what is gone is not looked at again and again.
        for kind in (*_HELD, "frames"):
            statement = _DELETE.format(kind=kind, chunk=_CHUNK, after=self._after.get(kind, 0))
            gone = connection.execute(statement.encode()).fetchall()
            if gone:
                self._after[kind] = max(number for (number,) in gone)
                return True
        # What a writer is taking out at this moment, it will have taken out the next time.
        self._after.clear()
        return False

    def _doom(self, connection: Connection, kinds: tuple[str, ...]) -> bool:
        with connection.transaction():
            doomed = {
                kind: connection.execute(_DOOM.format(kind=kind, used=_used(connection, kind)).encode()).rowcount
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


def _used(connection: Connection, kind: str) -> str:
    # A query of the keys of this kind that something refers to.
    if kind == "frames":
        return "SELECT unnest(frames) AS id FROM store.stacks"
    of_blocks = [
        f'SELECT unnest({_HELD[kind]}) AS id FROM {schema}."{stream}"'
        for (stream,) in connection.execute(_STREAMS).fetchall()
        for schema in (FRESH, PACKED)
    ]
    of_states = references(connection, kind)
    return " UNION ALL ".join([*of_blocks, *([of_states] if of_states else [])])
