"""The filter in the kernel: which tasks a loaded object's programs watch.

The kernel, its marks and the rows use pids of the initial pid namespace; callers use pids of their own namespace.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.lookup import Lookup
from scope_bpf.catalogue.target import Target
from scope_bpf.code.mappings import running_processes
from scope_bpf.errors import TargetNotFound
from scope_bpf.host import has_host_pids
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import enum_values, record_dtype


class Filter:
    """The filter of a loaded object (filter.bpf.h). It can be changed while programs run."""

    def __init__(self, btf: Btf, loaded: BpfObject) -> None:
        self._dtype = record_dtype(btf, "scope_filter")
        self._left_out = enum_values(btf, "scope_mark")["SCOPE_EXCLUDED"]
        self._section, self._pids = loaded.map(".data.filter"), loaded.map("scope_pids")
        self._lookup = Lookup(btf, loaded)
        self._exe_fd = -1  # keeps the executable's inode in memory; the filter compares its address
        self._generation = 0
        self._excluded: set[int] = set()  # pids of the host, like the target's
        self._target_pid = 0

    def apply(self, target: Target) -> None:
        """Watches only this target, from the next event on.

        Raises:
            TargetNotFound: the target does not exist; the filter is unchanged.
        """
        generation = self._generation + 1
        value = np.zeros((), self._dtype)
        value["generation"] = generation
        for name, condition in target.conditions().items():
            value[name] = condition
        pid = self._host_pid(target.pid) if target.pid else 0
        if pid:
            value["family"] = generation
        if folder := target.cgroup_folder():
            value["by_cgroup"] = 1
            value["cgroup_id"], value["cgroup_level"] = self._cgroup(folder)
        exe_fd = self._hold(target.exe) if target.exe else -1
        if exe_fd >= 0:
            value["exe_inode"] = self._lookup.inode(exe_fd)
        self._generation = generation
        if pid:
            self._mark(pid, generation)
        self._section.update(_integer(0), value.tobytes())
        self.close()
        self._exe_fd = exe_fd
        if self._target_pid != pid and self._target_pid in self._excluded:
            self._mark(self._target_pid, self._left_out)
        self._target_pid = pid

    def _host_pid(self, pid: int) -> int:
        try:
            return self._lookup.process(pid)
        except OSError:
            raise TargetNotFound(f"no process has pid {pid}; `ps` lists running processes") from None

    def _cgroup(self, folder: Path) -> tuple[int, int]:
        try:
            return self._lookup.cgroup(folder)
        except OSError:
            raise TargetNotFound(f"there is no cgroup '{folder}'") from None

    def _hold(self, exe: str) -> int:
        """A descriptor of an executable."""
        try:
            return os.open(exe, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise TargetNotFound(f"cannot watch the executable '{exe}': {error.strerror}") from None

    def close(self) -> None:
        """Closes the executable. May be called again."""
        if self._exe_fd >= 0:
            os.close(self._exe_fd)
            self._exe_fd = -1

    def marked(self) -> set[int]:
        """Host pids of all marked processes: of this target, of an earlier target, or excluded."""
        return {int.from_bytes(key, "little") for key in self._pids.list_keys()}

    def watched(self) -> set[int]:
        """Host pids of the processes watched by pid: the target and its children."""
        family = _integer(self._generation)
        return {int.from_bytes(key, "little") for key in self._pids.list_keys() if self._pids.get(key) == family}

    def forget_ended(self) -> None:
        """Deletes the marks of ended processes if the programs in the kernel have missed their end."""
        for pid in self._ended(self.marked()):
            self._pids.delete(_integer(pid))

    def _ended(self, pids: set[int]) -> set[int]:
        if has_host_pids():
            return {pid for pid in pids if not Path(f"/proc/{pid}").exists()}
        return pids - self._host_pids(
            running_processes()
        )  # marks are only inherited: all these processes are in this namespace

    def exclude(self, pids: Collection[int]) -> bool:
        """Excludes these processes and their children, except the current target; returns whether one had no mark."""
        found = self._host_pids(pids)
        unmarked = found - self.marked()
        self._excluded |= found
        for pid in self._excluded - {self._target_pid}:
            self._mark(pid, self._left_out)
        return bool(unmarked)

    def _host_pids(self, pids: Collection[int]) -> set[int]:
        """Host pids of those processes that still run."""
        found = set()
        for pid in pids:
            with suppress(OSError):
                found.add(self._lookup.process(pid))
        return found

    def _mark(self, pid: int, mark: int) -> None:
        self._pids.update(_integer(pid), _integer(mark))


def _integer(value: int) -> bytes:
    return value.to_bytes(4, "little")
