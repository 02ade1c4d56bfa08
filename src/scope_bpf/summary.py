"""Reads a summary: swaps the kernel's map for an empty one, then reads what the old one holds."""

import time
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf._ffi import check, ffi, lib
from scope_bpf.catalogue import INTERVAL, Stream
from scope_bpf.columns import RawBatch
from scope_bpf.layout import Layout
from scope_bpf.object import BpfObject

KEYS = 16384  # an interval; more are counted as lost
_FIRST = (0).to_bytes(4, "little")


class SummaryReader:
    """Two maps that take turns in the slot the programs look in: the map in maps that is named as the stream.

    Raises:
        KernelError: the kernel has no memory for them.
    """

    def __init__(self, stream: Stream, layout: Layout, schema: pa.Schema, object_: BpfObject) -> None:
        self._stream, self._layout, self._schema = stream, layout, schema
        self._slot, first = object_.map(stream.name), object_.map(f"{stream.name}_first")
        self._key_size, self._value_size = first.key_size, first.value_size
        self._made = [object_.create_like(first.name, KEYS), object_.create_like(first.name, KEYS)]
        self._current = 0
        self._slot.update(_FIRST, self._made[0].to_bytes(4, "little"))
        self._since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.rows_made = 0

    def read(self) -> RawBatch | None:
        """What was counted since the last read: one row a key; None if nothing was.

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
        self.rows_made += len(rows)
        return RawBatch(self._stream, self._layout, self._schema, rows) if len(rows) else None

    def _take(self, fd: int) -> np.ndarray[Any, np.dtype[Any]]:
        keys = np.empty((KEYS, self._key_size), np.uint8)
        values = np.empty((KEYS, self._value_size), np.uint8)
        count = check(
            lib.scope_read_summary(fd, ffi.from_buffer(keys), ffi.from_buffer(values), KEYS),
            f"cannot read the summary '{self._stream.name}'",
        )
        packed = np.concatenate((keys[:count], values[:count]), axis=1)
        return self._with_interval(packed.view(self._layout.dtype).reshape(count))

    def _with_interval(self, rows: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
        fields = self._layout.fields
        wide = np.empty(len(rows), [*INTERVAL.descr, *((field.name, field.dtype) for field in fields)])
        for field in fields:
            wide[field.name] = rows[field.name]
        return wide

    def close(self) -> None:
        """Frees the maps. May be called again."""
        while self._made:
            lib.close(self._made.pop())
