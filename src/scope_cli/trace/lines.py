"""A trace as lines of text, one per row, appended while it is recorded."""

import time
from collections.abc import Collection, Iterable, Sequence
from string import Formatter
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import AnyTable, Sum, Table
from scope_cli.trace.cells import cells, is_number
from scope_cli.trace.headings import headings_of
from scope_cli.trace.sink import Accounts, Losses
from scope_cli.trace.times import WallClock
from scope_views.cut import cut_marked
from scope_views.printable import printable

_GATHERED_S = 0.15  # so long lines are gathered, so that those of several streams are in order of time
_WIDEST = 40  # of a text that others follow; longer ones push their line to the right
_FIRST = ("comm", "pid")


class LinesSink:
    """Lines with the time of day, the thread's name, the process, then the stream's `line`.

    Lines that arrive together are in order of time; a long call arrives after shorter ones that began later.
    The headings precede the first line. With several streams each line names its stream and its columns instead.
    """

    def __init__(self, file: BinaryIO, accounts: Accounts, streams: Collection[str]) -> None:
        self._file, self.name = file, "standard output"
        self._stream_width = max(map(len, streams)) if len(streams) > 1 else 0
        self._losses, self._clock = Losses(accounts), WallClock()
        self._widths: dict[str, int] = {}
        self._gathered: list[tuple[pa.Array, pa.Array]] = []
        self._due = 0.0

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """Those of a line."""
        shown = {*_first(stream), *(name for part in _parts(stream) for name in _columns_of(part))}
        described = stream.by_name
        return {"ktime_ns", *shown, *(flag for name in shown if (flag := described[name].cut_if))}

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Makes lines of a batch."""
        if not batch.num_rows:
            return
        if not self._gathered:
            self._due = time.monotonic() + _GATHERED_S
        is_first = not self._widths
        lines = self._lines_of_several(stream, batch) if self._stream_width else self._lines(stream, batch)
        if is_first and not self._stream_width:
            earliest = pa.array([pc.min(batch["ktime_ns"]).as_py()], batch["ktime_ns"].type)
            self._gathered.append((earliest, pa.array([self._headings(stream, batch)])))
        self._gathered.append((batch["ktime_ns"], lines))

    def _lines(self, stream: DescribedStream, batch: pa.RecordBatch) -> pa.Array:
        parts = (*_first(stream), *_parts(stream))
        headings = _headings(parts)
        made = [pc.strftime(_local(self._clock.times(batch)), "%H:%M:%S")]
        for index, part in enumerate(parts):
            made.append(self._padded(stream, batch, part, headings[part], last=index == len(parts) - 1))
        return pc.binary_join_element_wise(*made, "  ")

    def _lines_of_several(self, stream: DescribedStream, batch: pa.RecordBatch) -> pa.Array:
        made = [pc.strftime(_local(self._clock.times(batch)), "%H:%M:%S")]
        made.append(pa.array([stream.name.ljust(self._stream_width)] * batch.num_rows))
        made += [self._padded(stream, batch, part, part) for part in _first(stream)]
        for part, heading in _headings(_parts(stream)).items():
            texts = _texts(stream, batch, part)
            if not _is_template(part):
                texts = pc.binary_join_element_wise(f"{heading}=", pc.utf8_trim_whitespace(texts), "")
            made.append(texts)
        return pc.binary_join_element_wise(*made, "  ")

    def _padded(
        self, stream: DescribedStream, batch: pa.RecordBatch, part: str, heading: str, last: bool = False
    ) -> pa.Array:
        """Texts as wide as this column's have been so far; numbers to the right, the last ones as they are."""
        texts = _texts(stream, batch, part)
        longest = pc.max(pc.utf8_length(texts)).as_py()
        number = _is_number(stream, batch, part)
        width = max(self._widths.get(part, len(heading)), longest if number else min(longest, _WIDEST))
        self._widths[part] = width
        if number:
            return pc.utf8_lpad(texts, width)
        return texts if last else pc.utf8_rpad(texts, width)

    def _headings(self, stream: DescribedStream, batch: pa.RecordBatch) -> str:
        words = ["time".ljust(len("12:00:00.000000"))]
        for part, heading in _headings((*_first(stream), *_parts(stream))).items():
            width = self._widths[part]
            words.append(heading.rjust(width) if _is_number(stream, batch, part) else heading.ljust(width))
        return "  ".join(words).rstrip()

    def flush(self) -> None:
        """Writes the lines once they have been gathered long enough."""
        if not self._gathered:
            self._tell_losses()
        elif time.monotonic() >= self._due:
            self._write_lines()

    def _write_lines(self) -> None:
        times = pa.concat_arrays([times for times, _ in self._gathered])
        lines = pa.concat_arrays([lines for _, lines in self._gathered])
        self._gathered.clear()
        ordered = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines.take(pc.sort_indices(times)))
        self._file.write(pc.binary_join(ordered, "\n")[0].as_buffer())
        self._file.write(b"\n")
        self._tell_losses()

    def _tell_losses(self) -> None:
        for stream, reason, count in self._losses.new():
            self._file.write(f"{printable(f'{count:,} rows of {stream} were lost here ({reason})')}\n".encode())
        self._file.flush()

    def close(self) -> list[str]:
        """Writes the rest."""
        if self._gathered:
            self._write_lines()
        else:
            self._tell_losses()
        return []


def _first(stream: DescribedStream) -> tuple[str, ...]:
    return tuple(name for name in _FIRST if name in stream.by_name)


def _parts(stream: DescribedStream) -> tuple[str, ...]:
    """Columns and templates of a line, in order."""
    own = stream.shown.line or tuple(name for table in stream.shown.tables[:1] for name in _of_table(table))
    return tuple(dict.fromkeys(name for name in own if name not in _FIRST))


def _of_table(table: AnyTable) -> Iterable[str]:
    if not isinstance(table, Table):
        return table.columns
    return (*table.by, *(cell.column for cell in table.cells if isinstance(cell, Sum)))


def _is_template(part: str) -> bool:
    return "{" in part


def _columns_of(part: str) -> list[str]:
    """The columns that a part shows."""
    return [name for _, name, *_ in Formatter().parse(part) if name] if _is_template(part) else [part]


def _headings(parts: Sequence[str]) -> dict[str, str]:
    headed = headings_of(part for part in parts if not _is_template(part))
    return {part: headed.get(part, part.replace("{", "").replace("}", "")) for part in parts}


def _texts(stream: DescribedStream, batch: pa.RecordBatch, part: str) -> pa.Array:
    if not _is_template(part):
        return _cells(stream, batch, part)
    pieces: list[Any] = []
    for literal, name, *_ in Formatter().parse(part):
        pieces += [literal, *([_cells(stream, batch, name)] if name else [])]
    return pc.binary_join_element_wise(*pieces, "")


def _cells(stream: DescribedStream, batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column as texts, with ... for what was cut."""
    column = stream.by_name[name]
    return cut_marked(cells(batch[name], column), batch, name, column)


def _is_number(stream: DescribedStream, batch: pa.RecordBatch, part: str) -> bool:
    return not _is_template(part) and is_number(batch[part], stream.by_name[part])


def _local(times: pa.Array) -> pa.Array:
    offset_s = time.localtime().tm_gmtoff or 0
    local = pc.add(times.cast(pa.int64()), offset_s * 10**9).cast(pa.timestamp("ns"))
    return local.cast(pa.timestamp("us"), safe=False)
