"""Reads a summary: swaps the kernel's map for an empty one, then reads what the old one holds."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.map import take_all
from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.columns import RawBatch
from scope_bpf.catalogue.stream import INTERVAL, PROCESS, Rows, Stream
from scope_bpf.layout.fields import Kind, Layout

KEYS = 16384  # an interval; more are counted as lost
_FIRST = (0).to_bytes(4, "little")


@dataclass(frozen=True)
class Shape:
    """A summary's stream and what its rows are like."""

    stream: Stream
    layout: Layout
    schema: pa.Schema


class SummaryReader:
    """Two maps that take turns in the slot the programs look in: the map in maps that is named as the stream.

    Args:
        sums: the streams that add the rows up by process.

    Raises:
        KernelError: the kernel has no memory for the maps.
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

    def read(self) -> list[RawBatch]:
        """What was counted since the last read: one row a key, then one row a process for each stream of sums.

        Raises:
            KernelError: the kernel refused; what was counted is still there for the next read.
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
    """The rows of each process added up: numbers and histograms that do not describe it."""
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
