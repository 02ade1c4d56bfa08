"""Stored rows as the rows that agents sent: keys become texts, processes and machines; numbers get their types."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_server.store.schema.columns import IN_PROCESS, StreamTable
from scope_server.store.writing.connection import WriterConnection, integers
from scope_views.times import TIME

OF_ROW = ("machine_id", "hostname", "task_id")  # beside `time` and the stream's columns
_PROCESSES = """
SELECT id, NULLIF(pid, 0) AS pid, CASE WHEN pid <> 0 THEN start_ns END AS start_ns FROM store.processes
WHERE id = ANY($1)"""
_MACHINES = "SELECT id::bigint AS id, machine_id, hostname FROM store.machines WHERE id = ANY($1)"
_TASKS = """
SELECT b.id, t.task_id::text AS task_id
FROM store.batches AS b JOIN store.runs AS r ON r.id = b.run JOIN store.tasks AS t ON t.id = r.task
WHERE b.id = ANY($1) AND b.last_time >= to_timestamp({since_s})"""
_TEXT = pa.dictionary(pa.int32(), pa.string())


def schema_of(table: StreamTable) -> pa.Schema:
    """Of decoded rows: `time`, `OF_ROW`, then the stream's columns."""
    return pa.schema([TIME, *(pa.field(name, _TEXT) for name in OF_ROW), *table.schema])


class Decoder:
    """Decodes rows of a stream."""

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._schema = schema_of(table)

    def batch(self, rows: pa.Table, connection: WriterConnection) -> pa.RecordBatch:
        """The rows of a table that has the columns of `BASE` and the stream's, as stored.

        Raises:
            StoreUnavailable, DataRefused: as the connection.
        """
        columns = {name: _whole(rows.column(name)) for name in rows.column_names}
        micros = columns["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        ns = pc.add(pc.multiply(micros, 1000), pa.array(columns["ktime_ns"].to_numpy() % 1000))
        since_s = (pc.min(micros).as_py() or 0) // 1_000_000
        found = {
            **columns,
            "time": ns.cast(TIME.type),
            **_looked_up(connection, _MACHINES, columns["machine"], machine_id=pa.string(), hostname=pa.string()),
            **_looked_up(connection, _TASKS.format(since_s=since_s), columns["batch"], task_id=pa.string()),
        }
        if self._table.of_processes:
            of_process = dict.fromkeys(IN_PROCESS, pa.int64())
            looked_up = _looked_up(connection, _PROCESSES, columns["process"], **of_process)
            found |= {name: values.dictionary_decode() for name, values in looked_up.items()}
        for column in self._table.columns:
            if column.dimension:
                query, keys = column.dimension.texts("$1"), columns[column.name]
                found[column.name] = _looked_up(connection, query, keys, text=pa.string())["text"]
        return pa.RecordBatch.from_arrays(
            [_typed(found[field.name], field.type) for field in self._schema], schema=self._schema
        )


def _looked_up(
    connection: WriterConnection, query: str, keys: pa.Array, **columns: pa.DataType
) -> Mapping[str, pa.DictionaryArray]:
    """Columns of what keys stand for, by the column `id` of a query; null for absent keys."""
    encoded = keys.cast(pa.int64()).dictionary_encode()
    wanted = encoded.dictionary.to_pylist()
    known = {row["id"]: row for row in connection.query(query, {"keys": integers(wanted)})} if wanted else {}
    found = {}
    for name, type_ in columns.items():
        values = [known.get(key, {}).get(name) for key in wanted]
        there = np.array([value is not None for value in values], bool)
        places = pa.array(np.cumsum(there, dtype=np.int32) - 1, pa.int32(), mask=~there)
        dictionary = pa.array([value for value in values if value is not None], type_)
        found[name] = pa.DictionaryArray.from_arrays(places.take(encoded.indices), dictionary)
    return found


def _whole(column: pa.ChunkedArray) -> pa.Array:
    column = column.combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _typed(values: Any, type_: pa.DataType) -> pa.Array:
    if values.type == pa.int64() and type_ == pa.uint64():  # from 2**63 on, the stored value is negative
        return values.view(type_)
    if pa.types.is_list(values.type):
        inner = _typed(values.values, type_.value_type)
        values = pa.ListArray.from_buffers(
            pa.list_(inner.type), len(values), values.buffers()[:2], values.null_count, values.offset, [inner]
        )
    return values.cast(type_)
