"""Reads a summary: swaps the kernel's map for an empty one, then reads what the old one holds."""

import time
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf._ffi import check, ffi, lib
from scope_bpf.catalogue import INTERVAL, Stream
from scope_bpf.columns import RawBatch
from scope_bpf.layout import Layout
from scope_bpf.map import possible_cpus
from scope_bpf.object import BpfObject

_FIRST = (0).to_bytes(4, "little")


class SummaryReader:
    """Two maps that take turns in the slot the programs look in: the map in maps that is named as the stream."""

    def __init__(self, stream: Stream, layout: Layout, schema: pa.Schema, object_: BpfObject) -> None:
        self._stream, self._layout, self._schema = stream, layout, schema
        self._slot, first = object_.map(stream.name), object_.map(f"{stream.name}_first")
        self._entries, self._key_size, self._value_size = first.max_entries, first.key_size, first.value_size
        self._made = [object_.create_like(first.name), object_.create_like(first.name)]
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
        keys = np.empty((self._entries, self._key_size), np.uint8)
        values = np.empty((self._entries, possible_cpus(), self._value_size // 8), np.uint64)
        count = check(
            lib.scope_read_summary(fd, ffi.from_buffer(keys), ffi.from_buffer(values), self._entries),
            f"cannot read the summary '{self._stream.name}'",
        )
        packed = np.empty((count, self._key_size + self._value_size), np.uint8)
        packed[:, : self._key_size] = keys[:count]
        packed[:, self._key_size :] = values[:count].sum(axis=1).view(np.uint8)
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
