"""A trace as Parquet files, one per stream."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from scope_bpf.catalogue.stream import Stream
from scope_cli.errors import CommandError
from scope_cli.trace.times import TIME, WallClock, now_rfc3339


class ParquetSink:
    """FILE itself for one stream, FILE with the stream's name before its ending for several.

    Each column's metadata has its `meaning` and `unit`, the file's has the `stream`, its `meaning`, and when recording
    `began`: what the program did before is not in the file. Rows are in order of arrival, not of time.

    Args:
        schemas: the streams with their schemas.

    Raises:
        CommandError: a file cannot be written.
    """

    def __init__(self, path: Path, schemas: Sequence[tuple[Stream, pa.Schema]]) -> None:
        import pyarrow.parquet as pq

        self._clock, self.name = WallClock(), str(path)
        self._began = now_rfc3339()  # every probe is attached when outputs are opened
        self._schemas = {stream.name: _described(stream, schema, self._began) for stream, schema in schemas}
        self._paths = {
            name: path if len(schemas) == 1 else path.with_suffix(f".{name}{path.suffix}") for name in self._schemas
        }
        self._rows = dict.fromkeys(self._paths, 0)
        self._writers: dict[str, Any] = {}
        try:
            for name, schema in self._schemas.items():
                self._writers[name] = pq.ParquetWriter(self._paths[name], schema, compression="zstd")
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror or error}") from None

    def columns(self, stream: Stream) -> Collection[str] | None:
        """All."""
        return None

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        columns = [self._clock.times(batch), *batch.columns]
        timed = pa.RecordBatch.from_arrays(columns, schema=self._schemas[stream.name])
        self._writers[stream.name].write_batch(timed)
        self._rows[stream.name] += batch.num_rows

    def flush(self) -> None:
        """Nothing: a file is complete when it is closed."""

    def close(self) -> list[str]:
        """Ends the files."""
        for writer in self._writers.values():
            writer.close()
        return [f"{self._paths[name]}: {rows:,} rows since {self._began}" for name, rows in self._rows.items()]


def _described(stream: Stream, schema: pa.Schema, began: str) -> pa.Schema:
    described = stream.described()
    fields = [
        field.with_metadata({"meaning": described[field.name].meaning, "unit": described[field.name].unit})
        for field in schema
    ]
    time = TIME.with_metadata({"meaning": "ktime_ns as UTC time", "unit": ""})
    return pa.schema([time, *fields], metadata={"stream": stream.name, "meaning": stream.meaning, "began": began})
