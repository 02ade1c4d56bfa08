"""Writes a trace for Perfetto while it is recorded: slices and counters as the streams' timelines say."""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.capture.account import Account
from scope_bpf.catalogue.shown import Timeline
from scope_bpf.catalogue.stream import HEADER, PROCESS, Stream
from scope_cli.errors import CommandError
from scope_cli.groups import groups_of
from scope_cli.perfetto.messages import Column, Messages
from scope_cli.perfetto.tracks import NEEDED, SEQUENCE, Tracks

_BEGIN, _END, _COUNTER = 1, 2, 4  # TrackEvent.Type
_NAMES, _ARGUMENTS, _VALUES = "event_names", "debug_annotation_names", "debug_annotation_string_values"


class PerfettoSink:
    """A file in Perfetto's protobuf format. Packets are in the order in which they came; Perfetto sorts them by time.

    Args:
        accounts: the books of the streams as they stand: what is lost becomes a slice where it is missing.

    Raises:
        CommandError: the file cannot be written.
    """

    def __init__(self, path: Path, accounts: Callable[[], Mapping[str, Account]]) -> None:
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}") from None
        self._path, self._accounts = path, accounts
        self._tracks = Tracks()
        self._rows = 0
        self._lost: dict[str, int] = {}
        self._seen_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._tracks.begin(self._seen_ns, time.clock_gettime_ns(time.CLOCK_REALTIME))

    def columns(self, stream: Stream) -> Collection[str] | None:
        """All of a stream that is on the timeline."""
        return None if stream.timeline else ("ktime_ns",)

    def write(self, stream: Stream, batch: pa.RecordBatch) -> None:
        """Writes a batch."""
        if not stream.timeline:
            return
        self._tell_losses()
        self._rows += batch.num_rows
        messages = _Drawing(self._tracks, stream, stream.timeline, batch).packets()
        self._file.write(self._tracks.taken())
        for each in messages:
            self._file.write(Messages(each.count).message(1, each).encoded())

    def close(self) -> list[str]:
        """Ends the file."""
        self._tell_losses()
        with self._file as file:
            file.write(self._tracks.taken())
        return [f"{self._path}: {self._rows:,} rows on the timeline; open it at https://ui.perfetto.dev"]

    def _tell_losses(self) -> None:
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for name, account in self._accounts().items():
            lost = sum(account.lost.values())
            if lost > self._lost.get(name, 0):
                track = self._tracks.named(0, f"lost: {name}")
                text = f"{lost - self._lost.get(name, 0):,} lost ({', '.join(account.lost)})"
                self._tracks.slice(track, text, self._seen_ns, now_ns)
                self._lost[name] = lost
        self._seen_ns = now_ns


class _Drawing:
    """A batch of a stream as packets."""

    def __init__(self, tracks: Tracks, stream: Stream, timeline: Timeline, batch: pa.RecordBatch) -> None:
        self._tracks, self._stream, self._timeline, self._batch = tracks, stream, timeline, batch

    def packets(self) -> list[Messages]:
        """TracePackets of all rows."""
        timeline, drawn = self._timeline, []
        if timeline.name:
            begin_ns = self._numbers("ktime_ns")
            end_ns = begin_ns + self._numbers("duration_ns")
            threads = self._tracks_of(("pid", "start_ns", "tid"), self._thread)
            arguments = self._arguments()
            drawn += self._slices(threads, begin_ns, end_ns, self._texts(_NAMES, (timeline.name,)), arguments)
            if timeline.also_on:
                others = self._tracks_of(("pid", "start_ns", "tid", *timeline.also_on), self._other)
                others[~self._counted()] = 0
                drawn += self._slices(others, begin_ns, end_ns, self._texts(_NAMES, timeline.also_named), arguments)
        if timeline.counter:
            drawn.append(self._counters())
        return [messages for messages in drawn if messages.count]

    def _slices(
        self, tracks: Column, begin_ns: Column, end_ns: Column, names: Column, arguments: Messages
    ) -> list[Messages]:
        """Begins and ends of the rows that have a track, which is not 0."""
        here = np.flatnonzero(tracks)
        begins = Messages(len(here)).same(9, _BEGIN).varint(11, tracks[here]).varint(10, names[here])
        begins.append(arguments.taken(here))
        ends = Messages(len(here)).same(9, _END).varint(11, tracks[here])
        return [_packets(begin_ns[here], begins), _packets(end_ns[here], ends)]

    def _counters(self) -> Messages:
        timeline = self._timeline
        column = self._batch[timeline.counter]
        here = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        values = self._numbers(timeline.counter)
        if timeline.zero_if:
            values = np.where(self._numbers(timeline.zero_if) != 0, 0, values)
        tracks = self._tracks_of(("pid", "start_ns", *timeline.counter_by), self._counter)
        # An allocation is there when its call has returned.
        times = self._numbers("ktime_ns") + (self._numbers("duration_ns") if timeline.name else 0)
        events = Messages(len(here)).same(9, _COUNTER).varint(11, tracks[here]).varint(30, values[here])
        return _packets(times[here], events)

    def _counted(self) -> Column:
        unless = self._timeline.unless
        return self._numbers(unless) == 0 if unless else np.ones(self._batch.num_rows, bool)

    def _arguments(self) -> Messages:
        """The rest of the columns, as TrackEvents that have nothing else."""
        skipped = {*HEADER, *PROCESS, "duration_ns", self._timeline.name}
        described = {name: column for name, column in self._stream.described().items() if name not in skipped}
        numbers = dict(zip(described, self._tracks.texts(_ARGUMENTS, described), strict=True))
        events = Messages(self._batch.num_rows)
        for name, column in described.items():
            values = self._batch[name]
            present = values.is_valid().to_numpy(zero_copy_only=False)
            annotation = Messages(self._batch.num_rows).same(1, numbers[name])
            if pa.types.is_dictionary(values.type):
                annotation.varint(17, self._texts(_VALUES, (name,)))
            elif pa.types.is_boolean(values.type):
                annotation.varint(2, self._numbers(name))
            elif pa.types.is_floating(values.type):
                annotation.double(5, values.fill_null(0).to_numpy())
            elif pa.types.is_integer(values.type):
                signed = pa.types.is_signed_integer(values.type)
                annotation.varint(7 if column.hex else 4 if signed else 3, self._numbers(name))
            else:
                continue
            events.message(4, annotation, present)
        return events

    def _numbers(self, name: str) -> Column:
        column = self._batch[name]
        column = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
        found: Column = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        return found

    def _texts(self, kind: str, names: tuple[str, ...]) -> Column:
        """Numbers of the rows' texts: the columns' values, with blanks between."""
        codes, places = groups_of(self._batch, names) if len(names) > 1 else self._values(names[0])
        texts = [" ".join(str(value) for value in group if value is not None) for group in codes]
        return np.array(self._tracks.texts(kind, texts), np.uint64)[places]

    def _tracks_of(self, names: tuple[str, ...], describe: Callable[..., int]) -> Column:
        """The rows' tracks, which `describe` gives for the values of these columns; the first row has the name."""
        groups, places = groups_of(self._batch, names)
        _, first = np.unique(places, return_index=True)
        comms = self._batch["comm"].take(pa.array(first)).to_pylist()
        found = [describe(*group, comm=comm or "") for group, comm in zip(groups, comms, strict=True)]
        numbers: Column = np.array(found, np.uint64)[places]
        return numbers

    def _values(self, name: str) -> tuple[list[tuple[Any, ...]], Column]:
        """The same as `groups_of` for the texts of one column, of which all may be there that are in its dictionary."""
        column = self._batch[name]
        places = column.indices.fill_null(0) if column.null_count else column.indices
        return [(text,) for text in column.dictionary.to_pylist() or [None]], places.to_numpy()

    def _process(self, pid: int | None, start_ns: int | None, name: str = "") -> int:
        return self._tracks.process(pid or 0, start_ns or 0, name if pid else "no process")

    def _thread(self, pid: int | None, start_ns: int | None, tid: int | None, comm: str) -> int:
        process = self._process(pid, start_ns, comm if tid == pid else "")
        return self._tracks.thread(process, pid or 0, tid or 0, comm)

    def _other(self, pid: int | None, start_ns: int | None, tid: int | None, *values: Any, comm: str) -> int:
        """A track in one of the outer columns' values; 0 where the innermost is absent."""
        if values[-1] is None:
            return 0
        track = self._process(pid, start_ns)
        described = self._stream.described()
        for number, (name, value) in enumerate(zip(self._timeline.also_on, values, strict=True)):
            shown = "unknown" if value is None else f"{value:#x}" if described[name].hex else str(value)
            innermost = number == len(values) - 1
            track = self._tracks.named(track, f"{name} {shown}", tid if innermost else None)
        return track

    def _counter(self, pid: int | None, start_ns: int | None, *values: Any, comm: str) -> int:
        named = zip(self._timeline.counter_by, values, strict=True)
        words = ", ".join(f"{name} {value}" for name, value in named if value is not None)
        process = self._process(pid, start_ns, "" if "tid" in self._batch.schema.names else comm)
        return self._tracks.counter(process, f"{self._timeline.counter}: {words}")


def _packets(times_ns: Column, events: Messages) -> Messages:
    packets = Messages(events.count).varint(8, times_ns).same(10, SEQUENCE).same(13, NEEDED)
    return packets.message(11, events)
