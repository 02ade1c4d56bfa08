"""Writes a trace for Perfetto while it is recorded: slices and counters, as the streams' timelines say."""

import time
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from scope_bpf.catalogue.stream import Stream
from scope_cli.trace.perfetto.drawing import Drawing
from scope_cli.trace.perfetto.messages import Messages
from scope_cli.trace.perfetto.tracks import Tracks
from scope_cli.trace.sink import Accounts, Losses


class PerfettoSink:
    """A file in Perfetto's protobuf format. Packets are in the order in which they came; Perfetto sorts them by time.

    Args:
        accounts: the books of the streams as they stand: lost rows become a slice where they are missing.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, accounts: Accounts) -> None:
        self._file, self.name = path.open("wb"), str(path)
        self._losses, self._tracks = Losses(accounts), Tracks()
        self._rows = 0
        self._seen_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._tracks.begin(self._seen_ns, time.clock_gettime_ns(time.CLOCK_REALTIME))

    def columns(self, stream: Stream) -> Collection[str] | None:
        """All of a stream that is on the timeline."""
        return None if _is_drawn(stream) else ("ktime_ns",)

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        if not _is_drawn(stream) or not batch.num_rows:
            return
        self._tell_losses()
        self._rows += batch.num_rows
        messages = Drawing(self._tracks, stream, batch).packets()
        self._file.write(self._tracks.taken())
        for each in messages:
            self._file.write(Messages(each.count).message(1, each).encoded())

    def flush(self) -> None:
        """Nothing: the file is complete when it is closed."""

    def close(self) -> list[str]:
        """Ends the file."""
        self._tell_losses()
        with self._file as file:
            file.write(self._tracks.taken())
        return [f"{self.name}: {self._rows:,} rows on the timeline; open it at https://ui.perfetto.dev"]

    def _tell_losses(self) -> None:
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for stream, reason, count in self._losses.new():
            track = self._tracks.named(0, f"lost: {stream}")
            self._tracks.slice(track, f"{count:,} lost ({reason})", self._seen_ns, now_ns)
        self._seen_ns = now_ns


def _is_drawn(stream: Stream) -> bool:
    return bool(stream.timeline.slices or stream.timeline.counters)
