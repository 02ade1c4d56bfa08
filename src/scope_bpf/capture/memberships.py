"""What the processes of rows belong to, each looked up once: containers, pods and systemd units."""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from functools import cache

import numpy as np
import pyarrow as pa

from scope_bpf.capture.cgroup_watch import CgroupWatch
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.containers.containers import Containers, Membership, cgroups_of
from scope_bpf.containers.paths import unified
from scope_bpf.host import has_host_pids
from scope_catalogue.stream import OF_PROCESS, PROCESS_KEYS

_MOST_KNOWN = 65_536  # processes
_ENDED = "ZX"  # states in which a process is in no cgroup any more, though its parent has not asked for its status
_NOTHING = Membership()
TEXT = pa.dictionary(pa.int32(), pa.string())


class Memberships:
    """Processes by pid, start and cgroup: one that moves to another cgroup may be in another container. For any thread.

    Args:
        containers: those of the machine.

    Attributes:
        watch: entered while rows are recorded, so that containers are known that have ended when their rows are read.
    """

    def __init__(self, containers: Containers) -> None:
        self._containers = containers
        self.watch = CgroupWatch(lambda path: containers.look(f"0::{path}\n").is_whole)
        self._reads_proc = has_host_pids()  # in another pid namespace, the rows' pids differ from /proc
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[int, int, int], str] = OrderedDict()  # of /proc/PID/cgroup
        self._inside: OrderedDict[tuple[int, int], str] = OrderedDict()  # the same, of processes in containers

    def of(self, pid: int, start_ns: int, cgroup_id: int, at_least: float = 0.0) -> Membership:
        """What a process belongs to while it is in a cgroup; it may have ended.

        Args:
            at_least: a time of `time.monotonic`: what is known of a container that was being made then is asked anew.
        """
        text = self._text(pid, start_ns, cgroup_id, at_least)
        return self._containers.of(text) if text else _NOTHING

    def last(self, pid: int, start_ns: int, cgroup_id: int) -> Membership:
        """What a process belongs to now, or belonged to when it ended; `cgroup_id` is that of a row.

        A row that adds up may come after rows of later places: a process that has ended stays in its container.
        """
        lives, path = self._read(pid, start_ns), self.watch.path(cgroup_id)
        has_moved = lives and path and unified(lives) != path
        text = lives if has_moved else self._text(pid, start_ns, cgroup_id)
        found = self._containers.of(text) if text else _NOTHING
        with self._lock:
            if text and found.container_id:
                self._inside[pid, start_ns] = text
                if len(self._inside) > _MOST_KNOWN:
                    self._inside.popitem(last=False)
            before = None if lives or found.container_id else self._inside.get((pid, start_ns))
        return self._containers.of(before) if before else found

    def _text(self, pid: int, start_ns: int, cgroup_id: int, at_least: float = 0.0) -> str:
        key = pid, start_ns, cgroup_id
        with self._lock:
            text = self._texts.get(key)
        if text is None:
            text, path = self._read(pid, start_ns) or "", self.watch.path(cgroup_id)
            alone, young = f"0::{path}\n", self.watch.is_young(cgroup_id)
            is_whole = bool(path) and self._containers.of(alone, at_least if young else 0.0).is_whole
            if path and (unified(text) != path or is_whole):
                text = alone  # it has ended, or has moved since; or the watch has found its container already
            if text and (is_whole or not young):  # a later row may be of when the engine knows the container
                with self._lock:
                    self._texts[key] = text
                    if len(self._texts) > _MOST_KNOWN:
                        self._texts.popitem(last=False)
        return text

    def _read(self, pid: int, start_ns: int) -> str | None:
        if not self._reads_proc:
            return None
        try:
            text, stat = cgroups_of(pid), stat_of(pid)
        except OSError:
            return None
        ended = stat.state in _ENDED or stat.start_ticks != start_ns // TICK_NS
        return None if ended else text

    def joined(self, batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
        """A batch with more columns: of these names, those that stand for what is known of the rows' processes.

        Args:
            batch: with the columns `PROCESS_KEYS`, if there is anything to join.
        """
        wanted = [name for name in OF_PROCESS if name in names and name not in batch.schema.names]
        if not wanted:
            return batch
        if not batch.num_rows:
            for name in wanted:
                batch = batch.append_column(name, pa.nulls(0, TEXT))
            return batch
        keys = np.stack([batch[name].cast(pa.uint64()).fill_null(0).to_numpy() for name in PROCESS_KEYS], axis=1)
        packed = pa.Array.from_buffers(pa.binary(keys.itemsize * keys.shape[1]), len(keys), [None, pa.py_buffer(keys)])
        encoded = packed.dictionary_encode()
        distinct = np.frombuffer(b"".join(encoded.dictionary.to_pylist()), np.uint64).reshape(-1, keys.shape[1])
        now = time.monotonic()  # all rows are older, and an engine knows a container before its program begins
        found = [self.of(pid, start, id_, now) if pid else _NOTHING for pid, start, id_ in distinct.tolist()]
        for name in wanted:
            texts = pa.array([one.shown(name) for one in found], pa.string()).dictionary_encode()
            column = pa.DictionaryArray.from_arrays(texts.indices.take(encoded.indices), texts.dictionary)
            batch = batch.append_column(name, column)
        return batch


@cache
def of_machine() -> Memberships:
    """Those of this machine, which all tracers share."""
    return Memberships(Containers())
