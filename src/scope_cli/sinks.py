"""Where a trace goes: a live table, NDJSON, Parquet. A sink takes record batches, from one thread."""

import io
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Stream
from scope_cli.aggregate import Aggregate
from scope_cli.errors import CommandError


class Sink(Protocol):
    """Takes what was recorded."""

    def columns(self, stream: Stream) -> Collection[str] | None:
        """The columns it wants of a stream; None: all."""

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Takes a batch."""

    def close(self) -> list[str]:
        """Ends; returns lines for the summary."""


class TableSink:
    """Adds up for the live tables."""

    def __init__(self, streams: tuple[Stream, ...]) -> None:
        self.aggregates = [Aggregate(stream, live) for stream in streams for live in (stream.live, *stream.also_live)]

    def columns(self, stream: Stream) -> Collection[str] | None:
        """What its tables show."""
        return {name for aggregate in self._of(stream) for name in aggregate.columns}

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Takes a batch."""
        for aggregate in self._of(stream):
            aggregate.add(batch)

    def _of(self, stream: Stream) -> list[Aggregate]:
        return [aggregate for aggregate in self.aggregates if aggregate.stream is stream]

    def close(self) -> list[str]:
        """Nothing to end."""
        return []


class NdjsonSink:
    """A JSON object a line on stdout: the stream's columns by name, and its own name as `type`."""

    def columns(self, stream: Stream) -> Collection[str] | None:
        """All."""
        return None

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        import polars

        frame: Any = polars.from_arrow(batch)
        frame = frame.select(polars.lit(stream.name).alias("type"), polars.all())
        lines = io.BytesIO()  # polars would report a closed pipe as an error of its own
        frame.write_ndjson(lines)
        sys.stdout.buffer.write(lines.getbuffer())
        sys.stdout.buffer.flush()

    def close(self) -> list[str]:
        """Nothing to end."""
        return []


class ParquetSink:
    """One Parquet file a stream: FILE itself, or FILE with the stream's name if the probe has several."""

    def __init__(self, path: Path, probe: Probe, streams: tuple[Stream, ...]) -> None:
        import pyarrow.parquet as pq

        self._writers: dict[str, Any] = {}
        self._paths = {
            stream.name: path if len(streams) == 1 else path.with_suffix(f".{stream.name}{path.suffix}")
            for stream in streams
        }
        self._rows = dict.fromkeys(self._paths, 0)
        try:
            for stream in streams:
                schema = probe.schema(stream)
                self._writers[stream.name] = pq.ParquetWriter(self._paths[stream.name], schema, compression="zstd")
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror or error}") from None

    def columns(self, stream: Stream) -> Collection[str] | None:
        """All."""
        return None

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        self._writers[stream.name].write_batch(batch)
        self._rows[stream.name] += batch.num_rows

    def close(self) -> list[str]:
        """Ends the files."""
        for writer in self._writers.values():
            writer.close()
        return [f"{self._paths[name]}: {rows:,} rows" for name, rows in self._rows.items()]
