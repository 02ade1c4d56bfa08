"""States in maps of programs: read once per interval; entries of ended processes are deleted."""

import math
import time
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.link import Iterator
from scope_bpf.binding.map import Map
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import Batch, RawBatch
from scope_bpf.capture.part import Part
from scope_bpf.capture.summaries import Shape, add_rows, with_interval
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.layout.fields import Layout

TELL_ALL_EVERY_S = 60.0


SWEEP_EVERY_S = 10.0


class States(Part):
    """Reads the probe's states in every mode, and deletes entries of ended processes from its maps."""

    def __init__(self, probe: Probe, options: Mapping[str, Any]) -> None:
        self._shapes = [Shape.of(probe, stream) for stream in probe.states]
        self._kept = {name: probe.key_layout(name) for name in probe.kept_by_process}
        self._interval_s = options.get("interval_ms", 0) / 1000
        self._settled_by = [settled.by for shape in self._shapes if (settled := shape.stream.settled)]
        self._settling: list[Iterator] = []
        self._readers: list[StateReader] = []
        self._sweepers: list[Sweeper] = []
        self._next = self._next_sweep = math.inf

    def programs(self) -> Collection[str]:
        """The programs that fill in states; see `Stream.settled`."""
        return self._settled_by

    def start(self, object_: BpfObject) -> None:
        """Finds the maps."""
        self._readers = [StateReader(shape, object_.map(shape.stream.name)) for shape in self._shapes]
        self._sweepers = [Sweeper(object_.map(name), key) for name, key in self._kept.items()]
        self._next = time.monotonic() + self._interval_s if self._readers else math.inf
        self._next_sweep = time.monotonic() + SWEEP_EVERY_S if self._sweepers else math.inf

    def attach(self, object_: BpfObject) -> None:
        """Makes the programs ready to run."""
        self._settling = [object_.iterator(program) for program in self._settled_by]

    def due_s(self) -> float:
        """Seconds until the next read or sweep."""
        return min(self._next, self._next_sweep) - time.monotonic()

    def poll(self) -> list[Batch]:
        """Rows of changed states, if a read is due."""
        if time.monotonic() >= self._next_sweep:
            self._next_sweep += SWEEP_EVERY_S
            ended = EndedProcesses()
            for sweeper in self._sweepers:
                sweeper.sweep(ended)
        if time.monotonic() < self._next:
            return []
        self._next += self._interval_s
        self._settle()
        return self.rest()

    def _settle(self) -> None:
        for iterator in self._settling:
            iterator.run()

    def rest(self) -> list[Batch]:
        """Rows of the states that have changed since the last read."""
        ended = EndedProcesses()
        return [batch for reader in self._readers for batch in reader.read(ended)]

    def count(self, accounts: dict[str, Account]) -> None:
        """Adds the rows made."""
        for reader in self._readers:
            add_rows(accounts, reader.rows_made)

    def cost(self) -> Cost:
        """The cost of the programs that fill in states."""
        return sum((program_cost(iterator.program_fd) for iterator in self._settling), Cost())

    def detach(self) -> None:
        """Fills in the last states, while the other programs still run."""
        self._settle()

    def close(self) -> None:
        """Frees the programs; the object owns the maps."""
        self._readers, self._sweepers = [], []
        while self._settling:
            self._settling.pop().close()


class EndedProcesses:
    """Finds which processes of many rows have ended; asks the kernel once per process."""

    def __init__(self) -> None:
        self._alive: dict[tuple[int, int], bool] = {}

    def among(self, pids: Rows, starts_ns: Rows) -> Rows:
        """Whether the process of each row has ended; shape (count,), bool."""
        packed = np.empty(len(pids), [("pid", "<i4"), ("start", "<u8")])
        packed["pid"], packed["start"] = pids, starts_ns
        places = _numbered(packed.view(np.uint8).reshape(len(packed), packed.itemsize))
        first = np.flatnonzero(np.diff(np.maximum.accumulate(places), prepend=-1))
        ended = np.array([not self._is_alive(int(one["pid"]), int(one["start"])) for one in packed[first]], bool)
        return ended[places]

    def _is_alive(self, pid: int, start_ns: int) -> bool:
        if (pid, start_ns) not in self._alive:
            try:
                stat = stat_of(pid)
                runs = stat.state not in ("Z", "X") or stat.threads > 1  # the main thread may end before others
                self._alive[pid, start_ns] = stat.start_ticks == start_ns // TICK_NS and runs
            except OSError:
                self._alive[pid, start_ns] = False
        return self._alive[pid, start_ns]


class Sweeper:
    """Deletes entries of ended processes from a map, when they were found ended twice.

    The first time, the last events of the process may still be in a ring or batch, and need the entry.

    Args:
        key: layout of the map's keys, with `pid` and `start_ns`.
    """

    def __init__(self, of: Map, key: Layout) -> None:
        self._map, self._key = of, key
        self._over: Rows = np.empty((0, of.key_size), np.uint8)

    def sweep(self, ended: EndedProcesses) -> None:
        """Deletes the entries of processes that had ended at the last sweep.

        Raises:
            KernelError: the kernel refused.
        """
        keys, _ = self._map.read_all()
        fields = keys.view(self._key.dtype).reshape(len(keys))
        over = keys[ended.among(fields["pid"], fields["start_ns"])]
        self._map.delete_all(over[_stood_in(over, self._over)])
        self._over = over


class StateReader:
    """Makes rows for changed states; once a minute for all states; for ended processes with `ended` set.

    So the rows' times show later that a state still existed, and counts by time are right.
    """

    def __init__(self, shape: Shape, of: Map) -> None:
        self._shape, self._map = shape, of
        self._dtype = shape.layout.dtype
        self._before: Rows = np.empty((0, self._dtype.itemsize), np.uint8)
        self._told_all = time.monotonic()
        self._since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.rows_made = {shape.stream.name: 0}

    def _read(self) -> tuple[Rows, Rows, Rows]:
        """Keys and entries as bytes, and the same entries as rows."""
        keys, values = self._map.read_all()
        packed = np.concatenate((keys, values), axis=1)
        return keys, packed, packed.view(self._dtype).reshape(len(packed))

    def read(self, ended: EndedProcesses) -> list[RawBatch]:
        """The rows since the last read.

        Raises:
            KernelError: the kernel refused.
        """
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        keys, packed, states = self._read()
        if ended.among(states["pid"], states["start_ns"]).any():
            keys, packed, states = self._read()  # includes changes after the read, before the process ended
        over = ended.among(states["pid"], states["start_ns"])
        states["ended"] = over
        changed = ~_stood_in(packed, self._before)
        if time.monotonic() - self._told_all >= TELL_ALL_EVERY_S:
            self._told_all = time.monotonic()
            changed[:] = True
        self._before = packed
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


def _stood_in(now: Rows, before: Rows) -> Rows:
    """Which of these entries, as bytes, were among those; shape (count,), bool."""
    codes = _numbered(np.concatenate((before, now)))
    last = int(codes[: len(before)].max(initial=-1))  # codes count up from the first entry
    return np.asarray(codes[len(before) :] <= last)


def _numbered(entries: Rows) -> Rows:
    """The number of each distinct entry, given as bytes, counting up from the first one; shape (count,), integers.

    By hashing: a million entries, as of a heap, take some ten milliseconds.
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(entries))]
    packed = pa.Array.from_buffers(pa.binary(entries.shape[1]), len(entries), buffers)
    return np.asarray(packed.dictionary_encode().indices.to_numpy())
