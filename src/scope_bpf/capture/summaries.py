"""Summaries: counts per key and interval, kept by programs in two maps that take turns."""

import math
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from scope_bpf.binding.link import Iterator
from scope_bpf.binding.map import memory_of, take_all
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import Batch, RawBatch
from scope_bpf.capture.events import Events
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import INTERVAL, PROCESS, Rows, Stream
from scope_bpf.catalogue.target import Target
from scope_bpf.layout.fields import Kind, Layout
from scope_catalogue.stream import Mode

KEYS = 16384  # per interval; events with more keys are counted as lost
_FIRST = (0).to_bytes(4, "little")


class Summaries(Part):
    """Reads all summaries of a probe once per interval, while the mode is Mode.SUMMARY.

    Args:
        events: has the names that are joined to summaries.
        held: the target is a command that has not begun yet.
    """

    def __init__(
        self, probe: Probe, events: Events, options: Mapping[str, Any], mode: Mode, *, held: bool = False
    ) -> None:
        self._own = [Shape.of(probe, stream) for stream in probe.summaries if not stream.adds_up]
        self._sums = [Shape.of(probe, stream) for stream in probe.summaries if stream.adds_up]
        self._events, self._interval_s = events, options["interval_ms"] / 1000
        self._mode, self._held = mode, held
        self._settled_by = [settled.by for shape in self._own if (settled := shape.stream.settled)]
        self._settling: list[Iterator] = []
        self._object: BpfObject | None = None
        self._readers: list[SummaryReader] = []
        self._next = math.inf
        self._names: dict[str, list[RawBatch]] = {}  # of the previous interval

    def programs(self) -> Collection[str]:
        """The programs that settle; see `Stream.settled`."""
        return self._settled_by

    def start(self, object_: BpfObject) -> None:
        """Creates the maps, if the mode needs them now."""
        self._object = object_
        self.set_mode(self._mode)

    def attach(self, object_: BpfObject) -> None:
        """Settles, so that what the target already does is counted from now on."""
        self._settling = [object_.iterator(program) for program in self._settled_by]
        if not self._held:
            self._settle()

    def retarget(self, target: Target) -> None:
        """Settles, for the new target."""
        self._settle()

    def _settle(self) -> None:
        for iterator in self._settling if self._readers else ():
            iterator.run()

    def set_mode(self, mode: Mode) -> None:
        """Switches the programs between counting and emitting events."""
        assert self._object
        if mode is Mode.SUMMARY and not self._readers:  # events mode saves these 30 MB of maps
            self._readers = [self._reader(shape, self._object) for shape in self._own]
        self._object.map(".data.mode").update(_FIRST, bytes([mode is Mode.SUMMARY]))
        self._next = time.monotonic() + self._interval_s if self._readers else math.inf

    def _reader(self, shape: "Shape", object_: BpfObject) -> "SummaryReader":
        sums = [other for other in self._sums if other.stream.adds_up == shape.stream.name]
        return SummaryReader(shape, sums, object_)

    def due_s(self) -> float:
        """Seconds until the next read."""
        return self._next - time.monotonic()

    def poll(self) -> list[Batch]:
        """The counts, if a read is due."""
        if self.due_s() > 0:
            return []
        self._next += self._interval_s
        self._settle()
        return self.rest()

    def rest(self) -> list[Batch]:
        """The counts since the last read."""
        read = [batch for reader in self._readers for batch in reader.read()]
        events = self._events.rest() if any(batch.stream.names for batch in read) else []
        # Reading the rest of the rings may already have found names that the next summary needs.
        older, self._names = self._names, self._events.names()
        return events + [
            replace(batch, names=(*self._names.get(source.stream, ()), *older.get(source.stream, ())))
            if (source := batch.stream.names)
            else batch
            for batch in read
        ]

    def count(self, accounts: dict[str, Account]) -> None:
        """Adds the rows made."""
        for reader in self._readers:
            add_rows(accounts, reader.rows_made)

    def cost(self) -> Cost:
        """The cost of the programs that settle."""
        return sum((program_cost(iterator.program_fd) for iterator in self._settling), Cost())

    def memory_bytes(self) -> int:
        """Of the maps that are counted in."""
        return sum(reader.memory_bytes for reader in self._readers)

    def detach(self) -> None:
        """Settles for the last time, while the other programs still run."""
        self._settle()

    def close(self) -> None:
        """Frees the maps."""
        while self._settling:
            self._settling.pop().close()
        while self._readers:
            self._readers.pop().close()


def add_rows(accounts: dict[str, Account], made: Mapping[str, int]) -> None:
    """Adds rows that user space made from maps to the counts of their streams."""
    for name, rows in made.items():
        account = accounts.get(name, Account())
        accounts[name] = replace(account, emitted=account.emitted + rows)


@dataclass(frozen=True)
class Shape:
    """A summary's stream with its layout and schema."""

    stream: Stream
    layout: Layout
    schema: pa.Schema

    @classmethod
    def of(cls, probe: Probe, stream: Stream) -> Self:
        """The shape of one of the probe's streams."""
        return cls(stream, probe.layout(stream), probe.schema(stream))


class SummaryReader:
    """Two maps that take turns. The map of maps with the stream's name holds the one that programs use now.

    Args:
        sums: streams that add up the rows by process.

    Raises:
        KernelError: not enough memory for the maps.
    """

    def __init__(self, own: Shape, sums: Sequence[Shape], object_: BpfObject) -> None:
        self._own, self._sums = own, sums
        name = own.stream.name
        self._slot, first = object_.map(name), object_.map(f"{name}_first")
        self._key_size, self._value_size = first.key_size, first.value_size
        self._made = [object_.create_like(first.name, KEYS), object_.create_like(first.name, KEYS)]
        self._current = 0
        self._slot.update(_FIRST, self._made[0].to_bytes(4, "little"))
        self._since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.rows_made = {shape.stream.name: 0 for shape in (own, *sums)}

    @property
    def memory_bytes(self) -> int:
        """The kernel's memory for its maps."""
        return sum(map(memory_of, self._made))

    def read(self) -> list[RawBatch]:
        """The counts since the last read: one row per key; for each stream in `sums`, one row per process.

        Raises:
            KernelError: the kernel refused; the next read still gets these counts.
        """
        idle = 1 - self._current
        self._slot.update(_FIRST, self._made[idle].to_bytes(4, "little"))  # returns when no program uses the old map
        filled, self._current = self._made[self._current], idle
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        rows = self._take(filled)
        rows["ktime_ns"], rows["interval_ns"] = now_ns, now_ns - self._since_ns
        self._since_ns = now_ns
        if not len(rows):
            return []
        summed = [(shape, _by_process(rows, shape.layout)) for shape in self._sums]
        return [self._batch(shape, of_shape) for shape, of_shape in ((self._own, rows), *summed)]

    def _batch(self, shape: Shape, rows: Rows) -> RawBatch:
        self.rows_made[shape.stream.name] += len(rows)
        return RawBatch(shape.stream, shape.layout, shape.schema, rows)

    def _take(self, fd: int) -> Rows:
        keys, values = take_all(fd, self._key_size, self._value_size, KEYS)
        layout = self._own.layout
        packed = np.concatenate((keys, values), axis=1).view(layout.dtype).reshape(len(keys))
        rows = np.empty(len(keys), with_interval(layout))
        for field in layout.fields:
            rows[field.name] = packed[field.name]
        return rows

    def close(self) -> None:
        """Frees the maps. May be called again."""
        while self._made:
            os.close(self._made.pop())


def with_interval(layout: Layout) -> np.dtype[Any]:
    """The dtype of a summary's rows: the interval, then the layout's fields."""
    return np.dtype([*INTERVAL.descr, *((field.name, field.dtype) for field in layout.fields)])


def _by_process(rows: Rows, layout: Layout) -> Rows:
    """The sum of each process's rows, for numbers and histograms that are counts."""
    keys = [field.name for field in layout.fields if field.name in PROCESS]
    packed = np.empty(len(rows), [(name, rows.dtype[name]) for name in keys])
    for name in keys:
        packed[name] = rows[name]
    _, first, places = np.unique(packed, return_index=True, return_inverse=True)
    sums = np.zeros(len(first), with_interval(layout))
    for name in (*(INTERVAL.names or ()), *keys):
        sums[name] = rows[name][first]
    for field in layout.fields:
        if field.name not in PROCESS and field.kind in (Kind.NUMBER, Kind.HISTOGRAM):
            np.add.at(sums[field.name], places, rows[field.name])
    return sums
