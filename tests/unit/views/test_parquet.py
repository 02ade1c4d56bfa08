"""Rows as a Parquet file."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
from tests.unit.views.streams import stream

from scope_catalogue.stream import Column
from scope_views.parquet import ParquetFile
from scope_views.times import TIME


def test_a_file_says_what_it_has() -> None:
    """Rows in order with their times; the metadata has the meanings, the units, and when recording began."""
    of = stream({"ns": Column("how long", "ns")}, name="call", meaning="calls")
    schema = pa.schema([("ns", pa.uint64())])
    file = io.BytesIO()
    written = ParquetFile(file, of, schema, "2026-01-31T12:00:00Z")
    for first in (0, 3):
        rows = pa.RecordBatch.from_pydict({"ns": range(first, first + 3)}, schema)
        written.write(pa.array(range(10 + first, 13 + first), TIME.type), rows)
    written.close()
    assert not file.closed
    read = pq.ParquetFile(io.BytesIO(file.getvalue())).read()
    assert read["ns"].to_pylist() == list(range(6))
    assert read["time"].cast(pa.int64()).to_pylist() == list(range(10, 16))
    assert read.schema.metadata == {b"stream": b"call", b"meaning": b"calls", b"began": b"2026-01-31T12:00:00Z"}
    assert read.schema.field("ns").metadata[b"meaning"] == b"how long"
    assert read.schema.field("ns").metadata[b"unit"] == b"ns"
