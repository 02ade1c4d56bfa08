"""Chunks: what TimescaleDB's policies would do in jobs of its own, done by the server, which says how it goes."""

import logging
import time
from datetime import timedelta
from typing import Any

import psycopg

from scope_server.store.layout.hypertables.tables import ROWS
from scope_server.store.schema.day_tables import DayTable, Measured, in_use, patient
from scope_server.store.writing.connection import WriterConnection

_CLOSED = "1 hour"  # after the end of a chunk, when few rows come any more
_AGAIN_S = 3600.0  # between two looks at a chunk, so that late rows are compressed together
_LOCK_S = 3

# Bits of a chunk's status: compressed 1, with rows beside the compressed ones 8.
_DUE = f"""
SELECT format('%I.%I', chunk_schema, chunk_name) AS chunk
FROM timescaledb_information.chunks
WHERE hypertable_schema = '{ROWS}' AND ({{all}} OR range_end < now() - interval '{_CLOSED}')
  AND _timescaledb_functions.chunk_status(format('%I.%I', chunk_schema, chunk_name)::regclass) & 9 <> 1
ORDER BY range_end"""
_SIZES = f"""
SELECT h.hypertable_name, (c.range_start AT TIME ZONE 'UTC')::date, sum(s.total_bytes)::bigint
FROM timescaledb_information.hypertables h
CROSS JOIN LATERAL chunks_detailed_size(format('%I.%I', h.hypertable_schema, h.hypertable_name)::regclass) s
JOIN timescaledb_information.chunks c USING (chunk_schema, chunk_name)
WHERE h.hypertable_schema = '{ROWS}' AND h.num_chunks > 0
GROUP BY 1, 2"""
_DROP = """
SELECT drop_chunks(format('%%I.%%I', %s::text, %s::text)::regclass,
                   older_than => %s::timestamptz, newer_than => %s::timestamptz)"""
_log = logging.getLogger(__name__)


class Columnstore:
    """Compresses chunks that have ended, one a step. Its state only saves work. For one thread."""

    def __init__(self) -> None:
        self._not_before: dict[str, float] = {}

    def step(self, connection: WriterConnection, everything: bool = False) -> bool:
        """Compresses a chunk, if one is due; returns whether it did.

        Args:
            everything: also chunks that have not ended.

        Raises:
            StoreUnavailable: the database cannot be used now.
            DataRefused: the database refused, perhaps because the chunk was dropped meanwhile; nothing has changed.
        """
        now = time.monotonic()
        found = connection.query(_DUE.format(all="true" if everything else "false"))
        due = [row["chunk"] for row in found if everything or self._not_before.get(row["chunk"], 0.0) <= now]
        self._not_before = {chunk: at for chunk, at in self._not_before.items() if at > now}
        if not due:
            connection.commit()
            return False
        self._not_before[due[0]] = now + _AGAIN_S
        quoted = due[0].replace("'", "''")
        connection.query(f"SELECT compress_chunk('{quoted}'::regclass)")
        connection.commit()
        _log.debug("chunk compressed", extra={"chunk": due[0]})
        return True


def sizes(connection: psycopg.Connection[Any]) -> Measured:
    """The sizes of all chunks, by day.

    Raises:
        psycopg.Error: the database went away.
    """
    days = [
        DayTable(ROWS, f"{stream}_{day:%Y%m%d}", stream, day, size or 0)
        for stream, day, size in connection.execute(_SIZES.encode()).fetchall()
    ]
    return Measured(sum(one.bytes for one in days), days)


def drop(connection: psycopg.Connection[Any], one: DayTable) -> bool:
    """Drops a day's chunks of a hypertable; returns whether nobody was reading them.

    Raises:
        psycopg.Error: the database went away.
    """
    begin = f"{one.day}T00:00:00+00:00"
    end = f"{one.day + timedelta(days=1)}T00:00:00+00:00"
    try:
        patient(connection, _LOCK_S)
        connection.execute(_DROP, [one.schema, one.table, end, begin])
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        in_use(one, error)
        return False
    return True
