"""Merges what transactions wrote of an hour into one row a machine, and one of all machines: less to keep and to read.

A step is one transaction that takes rows out and puts their sums in, so that a reader sees each row's share once, and
a crash leaves all as it was.
"""

import logging
import time
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from scope_server.store.rollups.packed import BARE, EVERY_MACHINE, FRESH, HOURS, MINUTES, packed, unpacked
from scope_server.store.rollups.tally import joined, without
from scope_server.store.schema.columns import StreamTable
from scope_server.store.writing.connection import WriterConnection

_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('scope.rollups.{table}')) AS had"
# An hour is merged again when what is fresh would make a good part of it; once it is over, a smaller one.
_DUE = """
WITH fresh AS (
    SELECT hour, sum(groups) AS groups FROM rollups."{table}" WHERE level = {fresh} GROUP BY hour
), hours AS (
    SELECT f.hour, f.groups AS fresh, coalesce((
               SELECT sum(m.groups) FROM rollups."{table}" m
               WHERE m.hour = f.hour AND m.level = {minutes} AND m.machine <> {every}
           ), 0) AS merged, f.hour < now() - interval '70 min' AS over
    FROM fresh f
)
SELECT (extract(epoch FROM min(hour) FILTER (
           WHERE {all} OR fresh >= greatest(32768, merged) OR over AND fresh > merged / 16
       )) / 3600)::bigint AS hour, count(*) = 0 AS none_fresh FROM hours"""
_AGAIN_S = 120.0  # a stream that nothing was written of: most are, and each look is a transaction
_TAKEN = {"hour": None, "none_fresh": False}  # another server merges this stream
_MOST_ROWS = 2000  # fresh ones, a step
# The partition is known by the hour, so that ctid tells rows apart.
_TAKE_FRESH = """
DELETE FROM rollups."{table}"
WHERE hour = to_timestamp({hour}) AND ctid = ANY(ARRAY(
    SELECT ctid FROM rollups."{table}" WHERE hour = to_timestamp({hour}) AND level = {fresh} LIMIT {most}))
RETURNING {columns}"""
_TAKE_MERGED = """
DELETE FROM rollups."{table}"
WHERE hour = to_timestamp({hour}) AND level <> {fresh} AND machine IN ({machines})
RETURNING {columns}"""

_log = logging.getLogger(__name__)


class Merger:
    """Merges a database's rollups over a connection. For one thread.

    Args:
        later: when to look again at streams that nothing was written of, by `time.monotonic`; kept for the next Merger.

    Raises:
        StoreUnavailable: from its methods: the database cannot be used now. Make another with a new connection.
        DataRefused: it refuses, perhaps since a partition was dropped meanwhile; nothing has changed.
    """

    def __init__(
        self, connection: WriterConnection, tables: Iterable[StreamTable], later: dict[str, float] | None = None
    ) -> None:
        self._connection = connection
        self._tables = list(tables)
        self._later = {} if later is None else later

    def step(self, everything: bool = False) -> bool:
        """Merges an hour of one stream, if that is due; whether it did: then more may be.

        Args:
            everything: all that is fresh is due.
        """
        now = time.monotonic()
        tables = [table for table in self._tables if everything or self._later.get(table.name, now) <= now]
        return any(self._merge(table, everything) for table in tables)

    def _merge(self, table: StreamTable, everything: bool) -> bool:
        names = {"table": table.name, "fresh": FRESH, "minutes": MINUTES, "every": EVERY_MACHINE}
        connection = self._connection
        free = connection.query(_LOCK.format(**names))[0]["had"]
        (due,) = connection.query(_DUE.format(**names, all=str(everything).lower())) if free else [_TAKEN]
        if due["hour"] is None:
            connection.commit()
            if due["none_fresh"]:
                self._later[table.name] = time.monotonic() + _AGAIN_S
            return False
        keys = table.rollup.by
        columns = ["hour", "machine", "level", "minutes", *keys, "counts", "sums", "failed", "bucket_minutes"]
        columns += [*(f"bucket_{name}" for name in keys), "buckets", "bucket_counts", "first_second", "per_second"]
        where = {"hour": due["hour"] * 3600, "columns": ", ".join(f'"{name}"' for name in columns), **names}
        fresh = connection.table(_TAKE_FRESH.format(**where, most=_MOST_ROWS))
        machines = {EVERY_MACHINE, *fresh.column("machine").to_pylist()}
        before = connection.table(_TAKE_MERGED.format(**where, machines=", ".join(map(str, sorted(machines)))))
        for rows in _merged(fresh, before.filter(pc.equal(before.column("level"), MINUTES)), keys):
            connection.ingest("rollups", table.name, rows)
        connection.commit()
        _log.debug("rollups merged", extra={"stream": table.name, "rows": len(fresh)})
        return True


def _merged(fresh: pa.Table, before: pa.Table, keys: tuple[str, ...]) -> list[pa.Table]:
    of_every = pc.equal(before.column("machine"), EVERY_MACHINE)
    new = unpacked(fresh, keys)
    each = joined([new, unpacked(before.filter(pc.invert(of_every)), keys)], keys)
    every = joined([without(new, "machine"), unpacked(before.filter(of_every), keys)], keys)
    return [
        rows
        for by_minute in (each, every)
        for rows in (
            packed(by_minute, keys, MINUTES),
            packed(joined([without(by_minute, "minute")], keys), keys, HOURS),
            packed(joined([by_minute], ()), (), BARE),
        )
    ]
