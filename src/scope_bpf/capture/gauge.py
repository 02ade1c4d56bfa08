"""Reads states that programs keep in maps, and takes out what belonged to processes that have ended."""

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.binding.map import Map
from scope_bpf.capture.columns import RawBatch
from scope_bpf.capture.summary import Shape, with_interval
from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.layout.fields import Layout

TELL_ALL_EVERY_S = 60.0


class EndedProcesses:
    """Tells which processes of many rows have ended; asks the kernel once a process and instance."""

    def __init__(self) -> None:
        self._alive: dict[tuple[int, int], bool] = {}

    def among(self, pids: Rows, starts_ns: Rows) -> Rows:
        """Whether the process of each row has ended; shape (count,), bool."""
        packed = np.empty(len(pids), [("pid", "<i4"), ("start", "<u8")])
        packed["pid"], packed["start"] = pids, starts_ns
        present, places = np.unique(packed, return_inverse=True)
        ended = np.array([not self._is_alive(int(one["pid"]), int(one["start"])) for one in present], bool)
        return ended[places] if len(ended) else ended

    def _is_alive(self, pid: int, start_ns: int) -> bool:
        if (pid, start_ns) not in self._alive:
            try:
                stat = stat_of(pid)
                runs = stat.state not in ("Z", "X") or stat.threads > 1  # the first thread may end before others
                self._alive[pid, start_ns] = stat.start_ticks == start_ns // TICK_NS and runs
            except OSError:
                self._alive[pid, start_ns] = False
        return self._alive[pid, start_ns]


class Sweeper:
    """Takes entries of ended processes out of a map, once they were found ended twice.

    What such a process has last done may still be in a ring or a batch when it is found ended, and lead to an entry.

    Args:
        key: the layout of the map's keys, which have `pid` and `start_ns`.
    """

    def __init__(self, of: Map, key: Layout) -> None:
        self._map, self._key = of, key
        self._over = pa.array([], pa.binary(of.key_size))

    def sweep(self, ended: EndedProcesses) -> None:
        """Takes out what was over at the last sweep.

        Raises:
            KernelError: the kernel refused.
        """
        keys, _ = self._map.read_all()
        fields = keys.view(self._key.dtype).reshape(len(keys))
        over = keys[ended.among(fields["pid"], fields["start_ns"])]
        buffer = pa.py_buffer(np.ascontiguousarray(over))
        current = pa.Array.from_buffers(pa.binary(self._map.key_size), len(over), [None, buffer])
        self._map.delete_all(over[pc.is_in(current, self._over).to_numpy(zero_copy_only=False)])
        self._over = current


class GaugeReader:
    """Gives rows for the states that have changed, all of them once a minute, those of ended processes with `ended`.

    Whoever reads the rows later sees by their times that a state still is, and what is counted in time stays true.
    """

    def __init__(self, shape: Shape, of: Map) -> None:
        self._shape, self._map = shape, of
        self._dtype = shape.layout.dtype
        self._before = pa.array([], pa.binary(self._dtype.itemsize))
        self._told_all = time.monotonic()
        self._since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.rows_made = {shape.stream.name: 0}

    def read(self, ended: EndedProcesses) -> list[RawBatch]:
        """The rows since the last read.

        Raises:
            KernelError: the kernel refused.
        """
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        keys, values = self._map.read_all()
        packed: Any = np.concatenate((keys, values), axis=1)
        states = packed.view(self._dtype).reshape(len(packed))
        over = ended.among(states["pid"], states["start_ns"])
        states["ended"] = over
        buffer = pa.py_buffer(np.ascontiguousarray(packed))
        current = pa.Array.from_buffers(pa.binary(self._dtype.itemsize), len(packed), [None, buffer])
        changed = ~pc.is_in(current, self._before).to_numpy(zero_copy_only=False)
        if time.monotonic() - self._told_all >= TELL_ALL_EVERY_S:
            self._told_all = time.monotonic()
            changed[:] = True
        self._before = current
        self._map.delete_all(keys[over])
        rows = np.empty(int(changed.sum()), with_interval(self._shape.layout))
        for field in self._shape.layout.fields:
            rows[field.name] = states[field.name][changed]
        rows["ktime_ns"], rows["interval_ns"] = now_ns, now_ns - self._since_ns
        self._since_ns = now_ns
        if not len(rows):
            return []
        stream = self._shape.stream
        self.rows_made[stream.name] += len(rows)
        return [RawBatch(stream, self._shape.layout, self._shape.schema, rows)]
