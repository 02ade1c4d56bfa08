"""Rows as a Parquet file that says what they mean."""

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from scope_catalogue.stream import DescribedStream
from scope_views.described import described
from scope_views.times import TIME


class ParquetFile:
    """A file of one stream's rows: `time`, then the stream's columns.

    Each column's metadata has its `meaning` and `unit`, the file's has the `stream`, its `meaning`, and when recording
    `began`: what the program did before is not in the file. Rows are in the order in which they are written.

    Args:
        file: to write to; it stays open.
        schema: of the batches.
        began: an RFC 3339 time.
    """

    def __init__(self, file: BinaryIO, stream: DescribedStream, schema: pa.Schema, began: str) -> None:
        self._schema = described(stream, pa.schema([TIME, *schema]), {"began": began})
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, times: pa.Array, batch: pa.RecordBatch) -> None:
        """Writes rows with their times, of `TIME`'s type."""
        self._writer.write_batch(pa.RecordBatch.from_arrays([times, *batch.columns], schema=self._schema))

    def close(self) -> None:
        """Writes the end, without which the file cannot be read."""
        self._writer.close()
