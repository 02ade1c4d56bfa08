"""A trace as JSON in the format of Chrome's trace viewer, piece by piece: slices, moments, samples and counters.

The format has one number for a process: the pids of the second machine begin at 10,000,000, of the third at 20,000,000.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.shown import Counter, Slices
from scope_catalogue.stream import COMMON, DescribedStream
from scope_views.annotations import Annotation, lanes
from scope_views.chosen import Chosen
from scope_views.flows import Flows
from scope_views.groups import groups_of
from scope_views.lanes import Lanes, Numbers
from scope_views.machines import Machines
from scope_views.printable import printable_json

_OF_MACHINE = 10_000_000
_TRACKS = 1 << 24  # threads that are tracks have higher numbers than any thread, of 32 bits as importers want them


class ChromeTrace:
    """What the timelines of streams say, on one clock. The pieces, one behind the other, are the trace.

    Args:
        since_ns: since 1970; times are counted from then on, in µs, so that a float has their nanoseconds.
    """

    def __init__(self, since_ns: int) -> None:
        self._since_ns, self._machines = since_ns, Machines()
        self._named: set[tuple[int, int]] = set()
        self._tracks: dict[tuple[Any, ...], int] = {}
        self._lanes = Lanes()
        self._is_first = True

    def begin(self) -> bytes:
        """The first piece."""
        return f'{{"displayTimeUnit":"ns","otherData":{{"since_ns":"{self._since_ns}"}},"traceEvents":['.encode()

    def rows(self, stream: DescribedStream, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch with `time`, `machine_id`, `hostname` and the stream's columns."""
        pieces = []
        timeline = stream.shown.timeline
        for number, part in self._machines.parts(batch):
            pieces += [self._names(number, part)] if "pid" in part.schema.names else []
            pieces += [self._slices(number, stream, slices, part) for slices in timeline.slices]
            pieces += [self._counter(number, stream, counter, part) for counter in timeline.counters]
            if timeline.switches:
                on_cpu = Slices(("comm",), lasting=timeline.switches.lasted, ending=True, by_thread="")
                pieces.append(self._slices(number, stream, on_cpu, part))
            if timeline.samples:
                sample = Slices((timeline.samples.stack,), lasting="", where=timeline.samples.where)
                pieces.append(self._slices(number, stream, sample, part))
        return b"".join(pieces)

    def loss(self, stream: str, told: str, machine: tuple[str, str], begin_ns: int, end_ns: int) -> bytes:
        """A slice that says which rows of a machine, given by id and hostname, are missing."""
        pid = self._machines.number(*machine) * _OF_MACHINE
        track = self._track((pid, "lost", stream))
        lost = {"name": told, "cat": "lost", "ph": "X", "pid": pid, "tid": track}
        lost |= {"ts": (begin_ns - self._since_ns) / 1000, "dur": (end_ns - begin_ns) / 1000}
        return self._joined([*self._of_track(pid, track, f"lost: {stream}"), lost])

    def annotations(self, told: Sequence[Annotation]) -> bytes:
        """Marks and slices on a track of the machine that they are about; those about all, on the first one's."""
        events: list[dict[str, Any]] = []
        for lane, one in lanes(told):
            number = self._machines.number(*one.machine) if one.machine else self._machines.first()
            pid = number * _OF_MACHINE
            track = self._track((pid, "annotations", lane))
            event = {"name": one.text, "cat": "annotation", "pid": pid, "tid": track}
            event["ts"] = (one.begin_ns - self._since_ns) / 1000
            lasts = (
                {"ph": "i", "s": "t"} if one.end_ns is None else {"ph": "X", "dur": (one.end_ns - one.begin_ns) / 1000}
            )
            events += [*self._of_track(pid, track, "annotations"), event | lasts]
        return self._joined(events)

    def end(self) -> bytes:
        """The last piece."""
        return b"]}"

    def _slices(self, machine: int, stream: DescribedStream, slices: Slices, batch: pa.RecordBatch) -> bytes:
        batch = Chosen(stream, slices.where).of(batch)
        for name in filter(None, (slices.lasting, *slices.on[-1:], *(slices.named[:1] if not slices.lasting else ()))):
            batch = batch.filter(batch[name].is_valid())
        if not batch.num_rows:
            return b""
        length = _numbers(batch, slices.lasting) if slices.lasting else np.zeros(batch.num_rows, np.int64)
        begin = _numbers(batch, "ktime_ns") - (length if slices.ending else 0)
        pids, tids, described = self._places(machine, slices, batch, begin, begin + length)
        names = _repeated(slices.text, batch.num_rows)
        if slices.named:
            groups, places = groups_of(batch, slices.named)
            texts = [" ".join(str(one) for one in group if one is not None) for group in groups]
            names = polars.Series(texts)[places]
        skipped = {*COMMON, slices.lasting, *slices.named[:1]}
        arguments = [name for name in stream.by_name if name not in skipped and _is_plain(batch[name])]
        frame = polars.DataFrame(
            {
                "name": names,
                "cat": _repeated(stream.name, batch.num_rows),
                "ph": np.where(length > 0, "X", "i"),
                "ts": (begin - self._since_ns) / 1000,
                "dur": length / 1000,
                "pid": pids,
                "tid": tids,
            }
        )
        if arguments:
            its: Any = polars.from_arrow(pa.Table.from_batches([batch.select(arguments)]))
            frame = frame.with_columns(args=its.to_struct())
        return described + self._lines(frame) + self._flows(machine, stream, slices, batch, frame)

    def _flows(
        self, machine: int, stream: DescribedStream, slices: Slices, batch: pa.RecordBatch, frame: polars.DataFrame
    ) -> bytes:
        """Begins or steps of the slices' flows."""
        if slices.flow is None:
            return b""
        flows = Flows(stream, slices.flow, machine)
        ids = [f"{number:#x}" for number in flows.ids(batch).tolist()]
        kind = "s" if slices.flow.begins else "t"
        told = frame.select("ts", "pid", "tid").with_columns(
            name=polars.lit(slices.flow.name), cat=polars.lit("flow"), ph=polars.lit(kind), id=polars.Series(ids)
        )
        told = told.filter(polars.Series(flows.mask(batch)))
        return self._lines(told) if len(told) else b""

    def _places(
        self, machine: int, slices: Slices, batch: pa.RecordBatch, begin_ns: Numbers, end_ns: Numbers
    ) -> tuple[Any, Any, bytes]:
        """Processes and threads of the rows, and the names of threads that are tracks.

        Importers leave out a slice that overlaps another one of its thread: it gets a track beside, of the same name.
        """
        pids, tids = (
            _numbers(batch, name) + (machine * _OF_MACHINE if name == "pid" else 0) for name in ("pid", "tid")
        )
        by = (*slices.on, *(("tid",) if slices.below else ()))
        if not by:
            return pids, tids, b""
        groups, places = groups_of(batch, ("pid", *by))
        names: dict[int, str] = {}
        numbers, events = [], []
        for group in groups:
            pid = (group[0] or 0) + machine * _OF_MACHINE
            words = [f"{name} {value}" for name, value in zip(by, group[1:], strict=True) if value is not None]
            name = ", ".join([*words, *([slices.below] if slices.below else [])])
            track = self._track((pid, name))
            names[track] = name
            numbers.append(track)
            events += self._of_track(pid, track, name)
        tids = np.array(numbers, np.int64)[places]
        if slices.by_thread is None and slices.lasting:
            lanes, its = self._lanes.of(tids, begin_ns, end_ns), tids.tolist()
            beside: dict[int, tuple[int, str]] = {}
            for place in np.flatnonzero(lanes).tolist():
                track = tids[place] = self._track((its[place], "lane", int(lanes[place])))
                beside[track] = int(pids[place]), names[its[place]]
            for track, (pid, name) in beside.items():
                events += self._of_track(pid, track, name)
        return pids, tids, self._joined(events)

    def _counter(self, machine: int, stream: DescribedStream, counter: Counter, batch: pa.RecordBatch) -> bytes:
        batch = batch.filter(batch[counter.column].is_valid())
        if not batch.num_rows:
            return b""
        values = batch[counter.column]
        if counter.zero_where:
            values = pc.if_else(Chosen(stream, counter.zero_where).mask(batch), pa.scalar(0, values.type), values)
        times = _numbers(batch, "ktime_ns") + (_numbers(batch, counter.after) if counter.after else 0)
        names = _repeated(counter.column, batch.num_rows)
        if counter.by:
            groups, places = groups_of(batch, counter.by)
            names = polars.Series([counter.name(group) for group in groups])[places]
        pids = _numbers(batch, "pid") if "pid" in batch.schema.names else np.zeros(batch.num_rows, np.int64)
        kinds = {"cat": _repeated(stream.name, batch.num_rows), "ph": _repeated("C", batch.num_rows)}
        where = {"ts": (times - self._since_ns) / 1000, "pid": pids + machine * _OF_MACHINE}
        frame = polars.DataFrame({"name": names, **kinds, **where})
        value: Any = polars.from_arrow(pa.table({"value": values}))
        return self._lines(frame.with_columns(args=value.to_struct()))

    def _names(self, machine: int, batch: pa.RecordBatch) -> bytes:
        """The names of processes and threads that are new."""
        if "comm" not in batch.schema.names:
            return b""
        has_threads = "tid" in batch.schema.names
        events: list[dict[str, Any]] = []
        for group in groups_of(batch, ("pid", "comm", *(("tid",) if has_threads else ())))[0]:
            pid, comm = (group[0] or 0) + machine * _OF_MACHINE, group[1] or ""
            tid = (group[2] if has_threads else group[0]) or 0
            if (pid, tid) in self._named:
                continue
            self._named.add((pid, tid))
            events += self._of_track(pid, tid, comm)
            if tid == group[0]:
                host = f" @ {self._machines.hostnames[machine]}" if machine else ""
                events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"{comm}{host}"}})
        return self._joined(events)

    def _of_track(self, pid: int, tid: int, name: str) -> list[dict[str, Any]]:
        return [{"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}]

    def _track(self, key: tuple[Any, ...]) -> int:
        return self._tracks.setdefault(key, _TRACKS + len(self._tracks))

    def _joined(self, events: Sequence[dict[str, Any]]) -> bytes:
        return self._told("\n".join(json.dumps(event) for event in events)) if events else b""

    def _lines(self, frame: polars.DataFrame) -> bytes:
        return self._told(frame.write_ndjson().rstrip("\n"))

    def _told(self, lines: str) -> bytes:
        comma, self._is_first = ("" if self._is_first else ",\n"), False
        return (comma + printable_json(lines.replace("\n", ",\n"))).encode()


def _numbers(batch: pa.RecordBatch, name: str) -> Any:
    return batch[name].cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)


def _repeated(text: str, count: int) -> polars.Series:
    return polars.repeat(text, count, eager=True)


def _is_plain(column: pa.Array) -> bool:
    nested = pa.types.is_nested(column.type) or pa.types.is_binary(column.type)
    return not nested
