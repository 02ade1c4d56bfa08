"""A trace as Parquet files, one per stream."""

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_cli.trace.times import WallClock, now_rfc3339
from scope_views.parquet import ParquetFile


class ParquetSink:
    """FILE itself for one stream, FILE with the stream's name before its ending for several.

    Rows are in order of arrival, not of time.

    Args:
        schemas: the streams with their schemas.

    Raises:
        OSError: a file cannot be written.
    """

    def __init__(self, path: Path, schemas: Sequence[tuple[DescribedStream, pa.Schema]]) -> None:
        self._clock, self.name = WallClock(), str(path)
        self._began = now_rfc3339()  # every probe is attached when outputs are opened
        self._paths = {
            stream.name: path if len(schemas) == 1 else path.with_suffix(f".{stream.name}{path.suffix}")
            for stream, _ in schemas
        }
        self._rows = dict.fromkeys(self._paths, 0)
        self._open = ExitStack()
        self._files: dict[str, ParquetFile] = {}
        for stream, schema in schemas:
            file = self._open.enter_context(self._paths[stream.name].open("wb"))
            self._files[stream.name] = ParquetFile(file, stream, schema, self._began)

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """All."""
        return None

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        self._files[stream.name].write(self._clock.times(batch), batch)
        self._rows[stream.name] += batch.num_rows

    def flush(self) -> None:
        """Nothing: a file is complete when it is closed."""

    def close(self) -> list[str]:
        """Ends the files."""
        with self._open:
            for file in self._files.values():
                file.close()
        return [f"{self._paths[name]}: {rows:,} rows since {self._began}" for name, rows in self._rows.items()]
