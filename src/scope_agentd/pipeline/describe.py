"""Descriptions of the processes in a run's rows, from exec events and from /proc while a process lives."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.capture.batch import Batch, RawBatch
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.memberships import Memberships
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.containers.containers import Membership
from scope_bpf.host import has_host_pids
from scope_proto.scope.v1 import record_pb2

MOST_DESCRIBED_BYTES = 64 << 10  # of descriptions in one record
_MOST_ARGUMENT_BYTES = 4 << 10  # of a command line; the rest is cut
_MOST_KNOWN = 65_536  # processes that need no new description
_MOST_WAITING = 4_096  # descriptions not sent yet; beyond, the oldest are dropped
_FORGET_EVERY_S = 6 * 3600.0  # the server may have deleted the day with the description
_MOST_READ = 256  # processes looked up in /proc per batch: some 60 us each

_ASK_EVERY_S = 1.0
_ASK_FOR_S = 10.0  # for the name of a container that its engine does not tell yet

Key = tuple[int, int]  # pid, start_ns


class Describer:
    """Describes each process of a run at intervals, and again after an exec. For one thread.

    Args:
        memberships: those of the machine's processes.
    """

    def __init__(self, memberships: Memberships) -> None:
        self.memberships = memberships
        self._reads_proc = has_host_pids()  # in another pid namespace, the rows' pids differ from /proc
        self._forgets_at = 0.0
        self._known: OrderedDict[Key, int] = OrderedDict()  # with the cgroup
        self._told_at: OrderedDict[Key, int] = OrderedDict()  # ktime_ns of the newest row that described it
        self._unnamed: OrderedDict[Key, tuple[int, Membership, float]] = OrderedDict()
        self._asks_at = 0.0
        self._waiting: OrderedDict[Key, record_pb2.Process] = OrderedDict()

    def notice(self, raw: Batch) -> None:
        """Reads the new processes of a batch, before they end."""
        if not isinstance(raw, RawBatch) or not {"pid", "start_ns"} <= set(raw.rows.dtype.names or ()):
            return
        if raw.stream.describes:
            for ktime_ns, described in _described_by(raw):
                self._keep_newest(ktime_ns, described)
        if time.monotonic() > self._forgets_at:
            self._known.clear()
            self._forgets_at = time.monotonic() + _FORGET_EVERY_S
        for pid, start_ns, cgroup_id in _distinct(raw.rows):
            if pid and self._known.get((pid, start_ns)) != cgroup_id:
                self._describe(pid, start_ns, cgroup_id)
        if time.monotonic() > self._asks_at:
            self._asks_at = time.monotonic() + _ASK_EVERY_S
            self._ask_again()

    def _describe(self, pid: int, start_ns: int, cgroup_id: int) -> None:
        belongs = self.memberships.last(pid, start_ns, cgroup_id)
        process = described_in_proc(pid, start_ns) if self._reads_proc else None
        if process or belongs.cgroup:
            self._keep(_with(process or record_pb2.Process(pid=pid, start_ns=start_ns), belongs))
        self._known[pid, start_ns] = cgroup_id
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if not belongs.is_whole:
            self._unnamed[pid, start_ns] = cgroup_id, belongs, time.monotonic() + _ASK_FOR_S
            if len(self._unnamed) > _MOST_WAITING:
                self._unnamed.popitem(last=False)

    def _ask_again(self) -> None:
        """Describes processes again whose containers have got names since: engines may tell them later."""
        for (pid, start_ns), (cgroup_id, before, until) in list(self._unnamed.items()):
            belongs = self.memberships.last(pid, start_ns, cgroup_id)
            if belongs != before:
                self._keep(_with(record_pb2.Process(pid=pid, start_ns=start_ns), belongs))
            if belongs.is_whole or time.monotonic() > until:
                del self._unnamed[pid, start_ns]
            else:
                self._unnamed[pid, start_ns] = cgroup_id, belongs, until

    def take(self) -> list[record_pb2.Process]:
        """The next descriptions to send, as many as fit into one record."""
        taken: list[record_pb2.Process] = []
        room = MOST_DESCRIBED_BYTES
        while self._waiting:
            key, process = next(iter(self._waiting.items()))
            room -= process.ByteSize() + 8
            if room < 0:
                break
            taken.append(process)
            del self._waiting[key]
        return taken

    def _keep_newest(self, ktime_ns: int, process: record_pb2.Process) -> None:
        # Rows of several CPUs do not come in the order of time: an exec may come after a later one of its process.
        key = (process.pid, process.start_ns)
        if ktime_ns < self._told_at.get(key, 0):
            return
        self._told_at[key] = ktime_ns
        if len(self._told_at) > _MOST_KNOWN:
            self._told_at.popitem(last=False)
        self._keep(process)

    def _keep(self, process: record_pb2.Process) -> None:
        key = (process.pid, process.start_ns)
        if key in self._waiting:
            process = _merged(self._waiting.pop(key), process)
        self._waiting[key] = process
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popitem(last=False)


def described_in_proc(pid: int, start_ns: int) -> record_pb2.Process | None:
    """The description from /proc; None if the process has ended, or another process has its pid now."""
    folder = Path(f"/proc/{pid}")
    try:
        stat = stat_of(pid)
        if pid <= 0 or stat.start_ticks != start_ns // TICK_NS:
            return None
        arguments = (folder / "cmdline").read_bytes()[:_MOST_ARGUMENT_BYTES]
    except OSError:
        return None
    return record_pb2.Process(
        pid=pid,
        start_ns=start_ns,
        parent_pid=stat.parent,
        exe=_exe_of(folder),
        cmdline=[_text(word) for word in arguments.removesuffix(b"\0").split(b"\0")] if arguments else [],
    )


def _with(process: record_pb2.Process, belongs: Membership) -> record_pb2.Process:
    process.MergeFrom(record_pb2.Process(**vars(belongs)))
    return process


def _exe_of(folder: Path) -> str:
    try:
        return _text(os.fsencode((folder / "exe").readlink()))
    except OSError:  # a kernel thread has no executable
        return ""


def _described_by(raw: RawBatch) -> Iterator[tuple[int, record_pb2.Process]]:
    """Descriptions from rows that describe their own process, see `Stream.describes`, with their ktime_ns."""
    names = raw.stream.describes
    wanted = {"pid", "start_ns", "ktime_ns", *names.values()}
    rows: dict[str, list[Any]] = to_arrow(raw, wanted).to_pydict()
    for index, pid in enumerate(rows["pid"]):
        row = {field: rows[column][index] for field, column in names.items()}
        if row.pop("failed", 0):
            continue
        known = {field: value for field, value in row.items() if value is not None}
        exe, arguments = known.pop("exe", ""), known.pop("cmdline", [])
        script = exe in arguments[1:]  # for a script, the path of its interpreter comes first
        exe = arguments[0] if script else exe
        yield (
            rows["ktime_ns"][index],
            record_pb2.Process(
                pid=pid,
                start_ns=rows["start_ns"][index],
                exe=exe if exe.startswith("/") else "",
                cmdline=_cut(arguments),
                **known,
            ),
        )


def _cut(arguments: list[str]) -> list[str]:
    kept, room = [], _MOST_ARGUMENT_BYTES
    for word in arguments:
        room -= len(word) + 1
        if room < 0:
            break
        kept.append(word)
    return kept


def _distinct(rows: Any) -> Iterator[tuple[int, int, int]]:
    """The processes of a batch, each with its cgroup, at most `_MOST_READ`."""
    pids, starts_ns = rows["pid"], rows["start_ns"]
    cgroups = rows["cgroup_id"] if "cgroup_id" in rows.dtype.names else np.zeros(len(rows), np.uint64)
    same = (pids[1:] == pids[:-1]) & (starts_ns[1:] == starts_ns[:-1]) & (cgroups[1:] == cgroups[:-1])
    begins = np.concatenate(([0], np.flatnonzero(~same) + 1))  # starts of consecutive rows of the same process
    pids, starts_ns, cgroups = pids[begins], starts_ns[begins], cgroups[begins]
    # All mixed into one number: if two processes have the same number by chance, one is not described.
    mixed = starts_ns.astype(np.uint64) * np.uint64(1 << 22) + pids.astype(np.uint64)
    mixed ^= cgroups.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers = pa.array(mixed).dictionary_encode().indices.to_numpy()  # numbered from 0 in order of appearance
    first = np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))[:_MOST_READ]
    return zip(pids[first].tolist(), starts_ns[first].tolist(), cgroups[first].tolist(), strict=True)


def _merged(older: record_pb2.Process, newer: record_pb2.Process) -> record_pb2.Process:
    merged = record_pb2.Process()
    if newer.cgroup and (newer.cgroup, newer.container_id) != (older.cgroup, older.container_id):
        merged.parent_pid, merged.exe = older.parent_pid, older.exe  # of its earlier place, nothing is kept
        merged.cmdline.extend(older.cmdline)
    else:
        merged.CopyFrom(older)
    if newer.cmdline:
        del merged.cmdline[:]
    merged.MergeFrom(newer)
    return merged


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")
