"""Writes a trace for Perfetto while it is recorded."""

import time
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_cli.trace.sink import Accounts, Losses
from scope_views.perfetto.trace import PerfettoTrace


class PerfettoSink:
    """A file in Perfetto's protobuf format.

    Args:
        accounts: the books of the streams as they stand: lost rows become a slice where they are missing.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, accounts: Accounts) -> None:
        self._file, self.name = path.open("wb"), str(path)
        self._losses, self._trace = Losses(accounts), PerfettoTrace()
        self._rows = 0
        self._seen_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._file.write(self._trace.begin(self._seen_ns, time.clock_gettime_ns(time.CLOCK_REALTIME)))

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """All of a stream that is on the timeline."""
        return ("ktime_ns",) if stream.shown.timeline.is_empty else None

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        if stream.shown.timeline.is_empty or not batch.num_rows:
            return
        self._tell_losses()
        self._rows += batch.num_rows
        self._file.write(self._trace.rows(stream, batch))

    def flush(self) -> None:
        """Nothing: the file is complete when it is closed."""

    def close(self) -> list[str]:
        """Ends the file."""
        with self._file as file:
            self._tell_losses()
            file.write(self._trace.end())
        return [f"{self.name}: {self._rows:,} rows on the timeline; open it at https://ui.perfetto.dev"]

    def _tell_losses(self) -> None:
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for stream, reason, count in self._losses.new():
            self._file.write(self._trace.loss(stream, f"{count:,} lost ({reason})", self._seen_ns, now_ns))
        self._seen_ns = now_ns
