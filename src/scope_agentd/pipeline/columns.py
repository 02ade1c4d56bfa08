"""Writes Arrow columns as bytes, split into pieces below a size limit."""

from collections.abc import Iterator

import pyarrow as pa

# In this thread only: passing a batch's small columns to other threads costs more than compressing them.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def compressed(columns: pa.RecordBatch, most_bytes: int) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
    """The rows in order, in pieces, each with its Arrow IPC stream; None: a single row is larger than the limit.

    A piece contains only the dictionary entries that its rows use.
    """
    ipc = _written(columns)
    if ipc.size <= most_bytes:
        yield columns, ipc.to_pybytes()
    elif columns.num_rows == 1:
        yield columns, None
    else:
        half = columns.num_rows // 2
        for piece in (columns.slice(0, half), columns.slice(half)):
            yield from compressed(_with_own_dictionaries(piece), most_bytes)


def _written(columns: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=_OPTIONS) as writer:
        writer.write_batch(columns)
    return sink.getvalue()


def _with_own_dictionaries(columns: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [
        column.dictionary_decode().dictionary_encode() if pa.types.is_dictionary(column.type) else column
        for column in columns.columns
    ]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, columns.schema, strict=True)], schema=columns.schema
    )
