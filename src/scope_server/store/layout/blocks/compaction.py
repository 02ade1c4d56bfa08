"""Compaction: merges fresh blocks into large, compressed ones, step by step.

A step is one transaction, which deletes blocks and inserts their rows again. So readers see each row once, and a crash
changes nothing.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Collection

from scope_server.store.dimensions.declared import of_kind
from scope_server.store.layout.blocks.packing import BLOCK_ROWS, DAY_US, packed, unpacked
from scope_server.store.layout.blocks.tables import FRESH, PACKED, is_list, stored
from scope_server.store.layout.contract import Record
from scope_server.store.schema.partitions import Partition, Partitions
from scope_server.store.writing.connection import DataRefused, WriterConnection, strings

STEP_ROWS = 8 * BLOCK_ROWS
_VACUUM_ROWS = 4 * STEP_ROWS
_SETTLED_S = 300  # more recent blocks wait for their neighbours
_CLOSED_S = 3600  # time after the end of a day at which it is closed
_LATE_AGAIN_S = 3600.0  # so that late rows make few small blocks
# Days with enough rows for a step, and closed days.
_DUE = """
SELECT day, rows, closed
FROM (SELECT day, sum(row_count) AS rows, day + interval '1 day' < now() - make_interval(secs => {closed}) AS closed
      FROM (SELECT date_trunc('day', first_time, 'UTC') AS day, row_count FROM fresh."{stream}"
            WHERE {all} OR last_time < now() - make_interval(secs => {settled})) AS blocks
      GROUP BY day) AS days
WHERE {all} OR closed OR rows >= {step}
ORDER BY day"""
# ctid is unique only within a partition, so the partition is named.
_TAKE = """
WITH blocks AS (
    SELECT ctid AS place, row_count, sum(row_count) OVER (ORDER BY first_time, ctid) AS rows FROM fresh."{partition}"
    WHERE {all} OR last_time < now() - make_interval(secs => {settled})
)
DELETE FROM fresh."{partition}"
WHERE ctid = ANY(ARRAY(SELECT place FROM blocks WHERE rows - row_count < {step}))
RETURNING {columns}"""
_COLUMNS = """
SELECT columns::text AS columns FROM store.streams s JOIN unnest($1::text[]) w (stream) ON w.stream = s.stream
ORDER BY version DESC LIMIT 1"""

_log = logging.getLogger(__name__)


class Compaction:
    """Packs the fresh blocks of some streams, by name. Its state in memory only saves work. For one thread."""

    def __init__(self, tables: Collection[str]) -> None:
        self._tables = tables
        self._streams: list[str] = []
        self._not_before: dict[Partition, float] = {}
        self._vacated: Counter[Partition] = Counter()  # rows deleted since the last vacuum

    def step(self, connection: WriterConnection, everything: bool = False) -> bool:
        """Packs some rows of one day and stream, or frees their space, if due; returns whether it did.

        Args:
            everything: all fresh blocks are due.

        Raises:
            StoreUnavailable: the database cannot be used now.
            DataRefused: the database refused, perhaps because a partition was dropped meanwhile; nothing has changed.
        """
        self._streams += [stream for stream in self._tables if stream not in self._streams]
        for stream in tuple(self._streams):
            try:
                if self._pack(connection, stream, everything):
                    return True
            except DataRefused:
                # It blocks no other transaction.
                self._streams.remove(stream)
                self._streams.append(stream)
                raise
        return False

    def _pack(self, connection: WriterConnection, stream: str, everything: bool) -> bool:
        where = {"stream": stream, "all": everything, "settled": _SETTLED_S, "closed": _CLOSED_S, "step": STEP_ROWS}
        now = time.monotonic()
        for due in connection.query(_DUE.format(**where)):
            fresh = Partition(FRESH, stream, due["day"].date())
            if everything or due["rows"] >= STEP_ROWS or self._not_before.get(fresh, 0.0) <= now:
                break
        else:
            connection.commit()
            return self._vacuum(connection, stream, 1)
        if due["closed"] and due["rows"] < STEP_ROWS:  # the last step for this day
            self._not_before[fresh] = now + _LATE_AGAIN_S
        Partitions(connection).ensure([Partition(PACKED, stream, fresh.day)])
        # The rows of a column added meanwhile would be lost, so adding a column waits for this lock.
        connection.query(f'LOCK TABLE ONLY fresh."{stream}" IN ROW EXCLUSIVE MODE')
        columns = stored(json.loads(connection.query(_COLUMNS, {"stream": strings([stream])})[0]["columns"]))
        names = [column["name"] for column in columns]
        taken = ", ".join(map(_taken, columns))
        blocks = connection.table(_TAKE.format(**where, partition=fresh.name, columns=taken))
        rows = unpacked(blocks, names)
        if len(rows):
            keyed = [column["name"] for column in columns if of_kind(column["kind"])]
            connection.ingest(PACKED, stream, packed(rows, keyed, DAY_US))
        connection.commit()
        about = {"stream": stream, "day": fresh.day.isoformat(), "blocks": len(blocks), "rows": len(rows)}
        _log.debug("blocks packed", extra=about)
        self._vacated[fresh] += len(rows)
        self._vacuum(connection, stream, _VACUUM_ROWS)
        return True

    def _vacuum(self, connection: WriterConnection, stream: str, least: int) -> bool:
        # Soon, so that writers can reuse the space: PostgreSQL's autovacuum comes later.
        for fresh in [one for one, rows in self._vacated.items() if one.table == stream and rows >= least]:
            del self._vacated[fresh]
            connection.vacuum(fresh.schema, fresh.name)
            return True
        return False


def _taken(column: Record) -> str:
    # A block that is older than a column has no array for it.
    name, type_ = column["name"], "text" if is_list(column) else column["sql"]
    return f'coalesce("{name}", array_fill(NULL::{type_}, ARRAY[row_count])) AS "{name}"'
