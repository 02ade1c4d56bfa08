"""A trace as lines of text, one per row, appended while it is recorded."""

import time
from collections.abc import Collection
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.catalogue.stream import Stream
from scope_cli.trace.cells import cells, is_number
from scope_cli.trace.headings import headings_of
from scope_cli.trace.sink import Accounts, Losses
from scope_cli.trace.times import WallClock

_GATHERED_S = 0.15  # so long lines are gathered, so that those of several streams are in order of time
_WIDEST = 40  # of a text that others follow; longer ones push their line to the right
_FIRST = ("comm", "pid")


class LinesSink:
    """Lines in order of time: the time of day, the stream where there are several, the thread's name, the process,
    then the stream's `line`. A stream's headings precede its first line.
    """

    def __init__(self, file: BinaryIO, accounts: Accounts, streams: Collection[str]) -> None:
        self._file = file
        self._stream_width = max(map(len, streams)) if len(streams) > 1 else 0
        self._losses, self._clock = Losses(accounts), WallClock()
        self._widths: dict[str, list[int]] = {}
        self._gathered: list[tuple[pa.Array, pa.Array]] = []
        self._due = 0.0

    def columns(self, stream: Stream) -> Collection[str] | None:
        """Those of a line."""
        return {"ktime_ns", *_columns(stream)}

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Makes lines of a batch."""
        if not batch.num_rows:
            return
        if not self._gathered:
            self._due = time.monotonic() + _GATHERED_S
        is_first = stream.name not in self._widths
        lines = self._lines(stream, batch)
        if is_first:
            earliest = pa.array([pc.min(batch["ktime_ns"]).as_py()], batch["ktime_ns"].type)
            self._gathered.append((earliest, pa.array([self._headings(stream, batch)])))
        self._gathered.append((batch["ktime_ns"], lines))

    def _lines(self, stream: Stream, batch: pa.RecordBatch) -> pa.Array:
        described, names = stream.described(), _columns(stream)
        widths = self._widths.setdefault(stream.name, [len(heading) for heading in headings_of(names).values()])
        parts = [pc.strftime(_local(self._clock.times(batch)), "%H:%M:%S")]
        if self._stream_width:
            parts.append(pa.array([stream.name.ljust(self._stream_width)] * batch.num_rows))
        for index, name in enumerate(names):
            texts = cells(batch[name], described[name])
            longest = pc.max(pc.utf8_length(texts)).as_py()
            number = is_number(batch[name], described[name])
            widths[index] = max(widths[index], longest if number else min(longest, _WIDEST))
            if number:
                texts = pc.utf8_lpad(texts, widths[index])
            elif index < len(names) - 1:
                texts = pc.utf8_rpad(texts, widths[index])
            parts.append(texts)
        return pc.binary_join_element_wise(*parts, "  ")

    def _headings(self, stream: Stream, batch: pa.RecordBatch) -> str:
        described = stream.described()
        words = [
            "time".ljust(len("12:00:00.000000")),
            *(["stream".ljust(self._stream_width)] if self._stream_width else []),
        ]
        headed = headings_of(_columns(stream))
        for name, width in zip(_columns(stream), self._widths[stream.name], strict=True):
            number = is_number(batch[name], described[name])
            words.append(headed[name].rjust(width) if number else headed[name].ljust(width))
        return "  ".join(words).rstrip()

    def flush(self) -> None:
        """Writes the lines once they have been gathered long enough."""
        if self._gathered and time.monotonic() >= self._due:
            self._write_lines()

    def _write_lines(self) -> None:
        times = pa.concat_arrays([times for times, _ in self._gathered])
        lines = pa.concat_arrays([lines for _, lines in self._gathered])
        self._gathered.clear()
        ordered = lines.take(pc.sort_indices(times))
        self._file.write("\n".join([*ordered.to_pylist(), ""]).encode(errors="backslashreplace"))
        for stream, reason, count in self._losses.new():
            self._file.write(f"{count:,} rows of {stream} were lost here ({reason})\n".encode())
        self._file.flush()

    def close(self) -> list[str]:
        """Writes the rest."""
        if self._gathered:
            self._write_lines()
        return []


def _columns(stream: Stream) -> tuple[str, ...]:
    own = stream.line or stream.live.latest or (*stream.live.by, *stream.live.totals)
    first = [name for name in _FIRST if name in stream.described()]
    return tuple(dict.fromkeys((*first, *own)))


def _local(times: pa.Array) -> pa.Array:
    offset_s = time.localtime().tm_gmtoff or 0
    local = pc.add(times.cast(pa.int64()), offset_s * 10**9).cast(pa.timestamp("ns"))
    return local.cast(pa.timestamp("us"), safe=False)
