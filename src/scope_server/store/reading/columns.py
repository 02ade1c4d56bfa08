"""Rows as Arrow batches, in order of time: for answers that are as long as what was recorded.

Each batch is a query of its own, so that a slow reader holds neither a connection nor a snapshot. A row that is stored
when the reading begins comes exactly once: batches follow each other by time, batch and ordinal, and a row keeps these
when its block is packed. Rows that are stored meanwhile come if their time is still ahead.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Database
from scope_server.store.reading.decoded import Decoder
from scope_server.store.reading.filters import Conditions, conditions
from scope_server.store.reading.reach import oldest
from scope_server.store.reading.reader import Place
from scope_server.store.reading.selection import Selection
from scope_server.store.writing.connection import DataRefused, WriterConnection

MOST_ROWS = 16_384  # of a batch
_CONNECTIONS = 2


class Columns:
    """Reads rows, with a few connections of its own, which all readers share; an async context manager."""

    def __init__(self, database: Database, conninfo: str, statement_timeout_s: float) -> None:
        self._database = database
        given = conninfo_to_dict(conninfo).get("options") or ""
        limit = f"{given} -c statement_timeout={int(statement_timeout_s * 1000)} -c jit=off".strip()
        self._conninfo = make_conninfo(conninfo, options=limit, application_name="scope reader")
        self._free: list[WriterConnection] = []
        self._busy: set[WriterConnection] = set()
        self._turns = asyncio.Semaphore(_CONNECTIONS)

    async def batches(self, wanted: Selection) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows of a selection: `time`, `machine_id`, `hostname`, `task_id`, then the stream's columns.

        Args:
            wanted: with a begin and an end.

        Raises:
            StoreUnavailable: the database cannot be reached, or is too slow.
        """
        decoder, after = Decoder(wanted.table), None
        async with self._database.connection() as connection:
            found = await conditions(connection, wanted)
        while True:
            async with self._database.connection() as connection:
                ahead = await oldest(connection, wanted, found, MOST_ROWS)
            if ahead.empty:
                return
            statement = _statement(replace(wanted, until=ahead.until or wanted.until), found, after)
            batch, last = await self._in_thread(statement, decoder)
            if batch.num_rows:
                yield batch
            if batch.num_rows == MOST_ROWS and last:
                after, wanted = last, replace(wanted, since=last[0])
            elif ahead.until:
                after, wanted = None, replace(wanted, since=ahead.until)
            else:
                return

    async def _in_thread(self, statement: str, decoder: Decoder) -> tuple[pa.RecordBatch, Place | None]:
        """Reads in a thread, which uses its connection to the end, also if nobody waits for the batch any more."""
        await self._turns.acquire()
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, statement, decoder))
        reading.add_done_callback(self._ended)
        return await asyncio.shield(reading)

    def _ended(self, reading: asyncio.Future[Any]) -> None:
        self._turns.release()
        if not reading.cancelled():
            reading.exception()  # nobody may be left to be told

    def _read(self, statement: str, decoder: Decoder) -> tuple[pa.RecordBatch, Place | None]:
        """A batch, and the place of its last row."""
        connection = self._free.pop() if self._free else WriterConnection(self._conninfo)
        self._busy.add(connection)
        try:
            rows = connection.table(statement)
            batch = decoder.batch(rows, connection)
            connection.rollback()
        except DataRefused as error:
            raise StoreUnavailable(str(error)) from error
        finally:
            self._busy.remove(connection)
            if connection.open:
                self._free.append(connection)
        for row in rows.select(["time", "batch", "ordinal"]).slice(max(0, len(rows) - 1)).to_pylist():
            return batch, (row["time"], row["batch"], row["ordinal"])
        return batch, None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in list(self._busy):
            await asyncio.to_thread(connection.cancel)
        for _turn in range(_CONNECTIONS):
            await self._turns.acquire()
        while self._free:
            await asyncio.to_thread(self._free.pop().close)


def _statement(wanted: Selection, found: Conditions, after: Place | None) -> str:
    layout = wanted.table.layout
    of_rows, of_blocks = layout.within(*(sql.Literal(time) if time else None for time in (wanted.since, wanted.until)))
    where = [*found.rows, *of_rows]
    if after:
        place = sql.SQL(", ").join(map(sql.Literal, after))
        where.append(sql.SQL("(time, batch, ordinal) > ({})").format(place))
    query = sql.SQL("SELECT * FROM ({}) AS r ORDER BY time, batch, ordinal LIMIT {}").format(
        layout.rows(wanted.table.name, wanted.table.records, where, [*found.blocks, *of_blocks]), sql.Literal(MOST_ROWS)
    )
    return query.as_string(None)
