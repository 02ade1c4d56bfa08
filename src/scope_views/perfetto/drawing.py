"""A batch of a stream as packets of a trace: its slices, its counters, and the tracks that these are on."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from scope_catalogue.shown import Counter, Samples, Slices
from scope_catalogue.stream import COMMON, DescribedStream
from scope_views.chosen import Chosen
from scope_views.flows import Flows
from scope_views.groups import Group, groups_of
from scope_views.perfetto.callstacks import Callstacks
from scope_views.perfetto.messages import Column, Messages
from scope_views.perfetto.tracks import NEEDED, SEQUENCE, Tracks

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_NAMES, _ARGUMENTS, _VALUES = "event_names", "debug_annotation_names", "debug_annotation_string_values"
_PROCESS = ("pid", "start_ns")
_THREAD = (*_PROCESS, "tid")


class _Name(NamedTuple):
    """What a thread is called, and when it was seen with this name."""

    text: str
    at_ns: int


_NAMELESS = _Name("", 0)


class Drawing:
    """Draws a batch with rows. New tracks, texts and stacks are described to `tracks`."""

    def __init__(self, tracks: Tracks, callstacks: Callstacks, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        self._tracks, self._callstacks, self._stream, self._batch = tracks, callstacks, stream, batch

    def packets(self) -> list[Messages]:
        """TracePackets of all rows.

        The importer sorts packets by time and keeps the order of those with the same time. Where one slice of a track
        ends as the next one begins, the end has to come first; so all ends come first.
        """
        timeline = self._stream.shown.timeline
        drawn = [self._slices(slices) for slices in timeline.slices]
        packets = [ends for ends, _ in drawn] + [begins for _, begins in drawn]
        packets += [self._counter(counter) for counter in timeline.counters]
        packets += [self._samples(timeline.samples)] if timeline.samples else []
        return [messages for messages in packets if messages.count]

    def describe_threads(self) -> None:
        """Describes the threads of all rows, also where nothing is drawn on their tracks."""
        self._tracks_of(_THREAD, self._thread)

    def _slices(self, slices: Slices) -> tuple[Messages, Messages]:
        """Ends, and begins or moments, of the rows that have a slice. A slice without a length is a moment."""
        tracks = self._tracks_of_slices(slices)
        here = np.flatnonzero(self._has_slice(slices) & (tracks != 0))
        begin_ns, end_ns = (times[here] for times in self._times(slices))
        tracks, lasts = tracks[here], end_ns > begin_ns
        if slices.by_thread is None:
            tracks[lasts] = self._tracks.lanes(tracks[lasts], begin_ns[lasts], end_ns[lasts])
        kinds = np.where(lasts, _BEGIN, _INSTANT)
        begins = Messages(len(here)).varint(9, kinds).varint(11, tracks)
        begins.varint(10, self._names(slices)[here]).append(self._arguments(slices).taken(here))
        if slices.flow:
            flows = Flows(self._stream, slices.flow, self._tracks.machine)
            begins.fixed64(47, flows.ids(self._batch)[here], flows.mask(self._batch)[here])
        ends = Messages(int(lasts.sum())).same(9, _END).varint(11, tracks[lasts])
        return _packets(end_ns[lasts], ends), _packets(begin_ns, begins)

    def _has_slice(self, slices: Slices) -> Column:
        there = np.ones(self._batch.num_rows, bool)
        if slices.lasting:
            there &= self._batch[slices.lasting].is_valid().to_numpy(zero_copy_only=False)
        if slices.where:
            there &= self._chosen(slices.where)
        return there

    def _chosen(self, where: str) -> Column:
        """Whether a filter selects each row, shape (rows,)."""
        mask: Column = Chosen(self._stream, where).mask(self._batch).to_numpy(zero_copy_only=False)
        return mask

    def _times(self, slices: Slices) -> tuple[Column, Column]:
        """When slices begin and end, in ns, shape (rows,) each."""
        at_ns = self._numbers("ktime_ns")
        if not slices.lasting:
            return at_ns, at_ns
        length_ns = self._numbers(slices.lasting)
        return (at_ns - length_ns, at_ns) if slices.ending else (at_ns, at_ns + length_ns)

    def _names(self, slices: Slices) -> Column:
        """Numbers of the slices' names."""
        if slices.named:
            return self._texts(_NAMES, slices.named)
        (number,) = self._tracks.texts(_NAMES, [slices.text])
        return np.full(self._batch.num_rows, number, np.uint64)

    def _tracks_of_slices(self, slices: Slices) -> Column:
        """Tracks, shape (rows,); 0: none."""

        def of_process(key: Group, _: _Name) -> int:
            pid, start_ns, tid, *values = key
            track = self._below(self._process(pid, start_ns), slices.on, values, tid)
            return self._tracks.named(track, slices.below, tid) if track and slices.below else track

        def below_thread(key: Group, name: _Name) -> int:
            return self._tracks.named(self._thread(key, name), slices.below)

        if slices.on:
            return self._tracks_of((*_THREAD, *slices.on), of_process)
        return self._tracks_of(_THREAD, below_thread if slices.below else self._thread)

    def _below(self, track: int, names: Sequence[str], values: Sequence[Any], apart: int | None) -> int:
        """A track in one of the outer columns' values; 0 where the innermost is absent."""
        if values[-1] is None:
            return 0
        described = self._stream.by_name
        for number, (name, value) in enumerate(zip(names, values, strict=True)):
            shown = "unknown" if value is None else f"{value:#x}" if described[name].hex else str(value)
            innermost = number == len(values) - 1
            track = self._tracks.named(track, f"{name} {shown}", apart if innermost else None)
        return track

    def _counter(self, counter: Counter) -> Messages:
        here = np.flatnonzero(self._batch[counter.column].is_valid().to_numpy(zero_copy_only=False))
        values = self._numbers(counter.column)
        if counter.zero_where:
            values = np.where(self._chosen(counter.zero_where), 0, values)
        of = _PROCESS if "pid" in self._batch.schema.names else ()

        def describe(key: Group, name: _Name) -> int:
            of_thread = "tid" in self._batch.schema.names
            process = self._process(key[0], key[1], "" if of_thread else name.text) if of else 0
            unit = self._stream.by_name[counter.column].unit
            return self._tracks.counter(process, counter.name(key[len(of) :]), unit)

        tracks = self._tracks_of((*of, *counter.by), describe)
        times = self._numbers("ktime_ns") + (self._numbers(counter.after) if counter.after else 0)
        events = Messages(len(here)).same(9, _COUNTER).varint(11, tracks[here])
        if values.dtype.kind == "f":
            events.double(44, values[here])
        else:
            events.varint(30, values[here])
        return _packets(times[here], events)

    def _samples(self, samples: Samples) -> Messages:
        column = self._batch[samples.stack]
        there = column.is_valid().to_numpy(zero_copy_only=False) & self._chosen(samples.where)
        here = np.flatnonzero(there)
        self.describe_threads()
        encoded = column.take(pa.array(here)).cast(pa.string()).dictionary_encode()
        numbers = np.array(self._callstacks.numbers(encoded.dictionary.to_pylist()), np.uint64)
        sample = Messages(len(here)).varint(1, self._numbers("cpu")[here]).varint(2, self._numbers("pid")[here])
        sample.varint(3, self._numbers("tid")[here]).varint(4, numbers[encoded.indices.to_numpy()])
        packets = Messages(len(here)).varint(8, self._numbers("ktime_ns")[here]).same(10, SEQUENCE).same(13, NEEDED)
        return packets.message(66, sample)

    def _arguments(self, slices: Slices) -> Messages:
        """The rest of the columns, as TrackEvents that have nothing else."""
        skipped = {*COMMON, slices.lasting, *slices.named[:1]}
        described = {name: column for name, column in self._stream.by_name.items() if name not in skipped}
        numbers = dict(zip(described, self._tracks.texts(_ARGUMENTS, described), strict=True))
        events = Messages(self._batch.num_rows)
        for name, column in described.items():
            values = self._batch[name]
            present = values.is_valid().to_numpy(zero_copy_only=False)
            annotation = Messages(self._batch.num_rows).same(1, numbers[name])
            if pa.types.is_dictionary(values.type) or pa.types.is_string(values.type):
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

    def _values(self, name: str) -> tuple[list[tuple[Any, ...]], Column]:
        """As `groups_of` for the texts of one column; for absent ones, any text."""
        column = self._batch[name]
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if column.null_count == len(column):
            return [(None,)], np.zeros(len(column), np.int64)
        places = (
            column.indices.fill_null(column.indices.drop_null()[0]) if column.null_count else column.indices
        ).to_numpy()
        # A dictionary may have many more than these rows: it is that of all machines' rows.
        used = np.zeros(len(column.dictionary), bool)
        used[places] = True
        texts = column.dictionary.filter(pa.array(used)).to_pylist()
        return [(text,) for text in texts], (np.cumsum(used) - 1)[places]

    def _tracks_of(self, names: Sequence[str], describe: Callable[[Group, _Name], int]) -> Column:
        """The rows' tracks, which `describe` gives for values of these columns and the latest name of their thread."""
        if not names:
            return np.full(self._batch.num_rows, describe((), _NAMELESS), np.uint64)
        groups, places = groups_of(self._batch, names)
        found = [describe(group, name) for group, name in zip(groups, self._latest_names(places, groups), strict=True)]
        numbers: Column = np.array(found, np.uint64)[places]
        return numbers

    def _latest_names(self, places: Column, groups: Sequence[Group]) -> list[_Name]:
        if "comm" not in self._batch.schema.names:
            return [_NAMELESS] * len(groups)
        times = self._numbers("ktime_ns")
        latest = np.zeros(len(groups), np.int64)
        order = np.argsort(times, kind="stable")
        latest[places[order]] = order  # of several the later one stays
        comms = self._batch["comm"].take(pa.array(latest)).to_pylist()
        return [_Name(comm or "", at_ns) for comm, at_ns in zip(comms, times[latest].tolist(), strict=True)]

    def _process(self, pid: int | None, start_ns: int | None, name: str = "") -> int:
        return self._tracks.process(pid or 0, start_ns or 0, name if pid else "no process")

    def _thread(self, key: Group, name: _Name) -> int:
        pid, start_ns, tid = key
        process = self._process(pid, start_ns, name.text if tid == pid else "")
        return self._tracks.thread(process, pid or 0, tid or 0, name.text, name.at_ns)


def _packets(times_ns: Column, events: Messages) -> Messages:
    packets = Messages(events.count).varint(8, times_ns).same(10, SEQUENCE).same(13, NEEDED)
    return packets.message(11, events)
