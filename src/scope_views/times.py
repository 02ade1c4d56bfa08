"""Times of rows for people: the column `time`, which files have first."""

import pyarrow as pa
import pyarrow.compute as pc

TIME = pa.field("time", pa.timestamp("ns", "UTC"))


def rfc3339(times: pa.Array) -> pa.Array:
    """Times, of `TIME`'s type, as texts: 2026-01-31T12:00:00.123456789Z."""
    texts = times.cast(pa.timestamp("ns")).cast(pa.string())
    return pc.binary_join_element_wise(pc.utf8_replace_slice(texts, 10, 11, "T"), "Z", "")


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their times, of `TIME`'s type, as texts."""
    columns = [rfc3339(column) if column.type == TIME.type else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
