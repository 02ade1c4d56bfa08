"""The filter in the kernel: which tasks the programs of a loaded object watch."""

import os
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import TargetNotFound
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import enum_values, record_dtype

FIND_INODE = "scope_find_inode"  # filter.bpf.h


class Filter:
    """The filter of a loaded object, filter.bpf.h. Changeable while programs run."""

    def __init__(self, btf: Btf, loaded: BpfObject) -> None:
        self._dtype = record_dtype(btf, "scope_filter")
        self._left_out = enum_values(btf, "scope_mark")["SCOPE_EXCLUDED"]
        self._object = loaded
        self._section, self._pids = loaded.map(".data.filter"), loaded.map("scope_pids")
        self._exe_fd = -1  # holds the executable's inode, whose address the kernel compares
        self._generation = 0
        self._excluded: set[int] = set()
        self._target = Target()

    def apply(self, target: Target) -> None:
        """Watches the target from the next event on, and nothing else.

        Raises:
            TargetNotFound: it does not exist; the filter stays as it was.
        """
        conditions = target.conditions()
        exe_fd, exe_inode = self._hold(target.exe) if target.exe else (-1, 0)
        self._generation += 1
        value = np.zeros((), self._dtype)
        value["generation"] = self._generation
        value["exe_inode"] = exe_inode
        if target.pid:
            value["family"] = self._generation
            self._mark(target.pid, self._generation)
        for name, condition in conditions.items():
            value[name] = condition
        self._section.update(_integer(0), value.tobytes())
        self.close()
        self._exe_fd = exe_fd
        if self._target.pid != target.pid and self._target.pid in self._excluded:
            self._mark(self._target.pid, self._left_out)
        self._target = target

    def _hold(self, exe: str) -> tuple[int, int]:
        """Opens an executable; the descriptor, and the address of the inode for as long as that is open."""
        try:
            fd = os.open(exe, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise TargetNotFound(f"cannot watch the executable '{exe}': {error.strerror}") from None
        self._object.run(FIND_INODE, fd)
        return fd, int.from_bytes(self._object.map(".data.found").lookup(_integer(0))[:8], sys.byteorder)

    def close(self) -> None:
        """Lets go of the executable. May be called again."""
        if self._exe_fd >= 0:
            os.close(self._exe_fd)
            self._exe_fd = -1

    def marked(self) -> set[int]:
        """The processes that have a mark of their own, by pid: of this target, of an earlier one, or left out."""
        return {int.from_bytes(key, "little") for key in self._pids.list_keys()}

    def watched(self) -> set[int]:
        """The processes that are watched by their pid: the target and the children it has started."""
        family = _integer(self._generation)
        return {int.from_bytes(key, "little") for key in self._pids.list_keys() if self._pids.get(key) == family}

    def forget_ended(self) -> None:
        """Takes back the marks of processes that ended without the kernel's taking them back."""
        for pid in self.marked():
            if not Path(f"/proc/{pid}").exists():
                self._pids.delete(_integer(pid))

    def exclude(self, pids: Collection[int]) -> None:
        """Leaves these processes and the children they start out, but not the target while it is that."""
        self._excluded.update(pids)
        for pid in self._excluded - {self._target.pid}:
            self._mark(pid, self._left_out)

    def _mark(self, pid: int, mark: int) -> None:
        self._pids.update(_integer(pid), _integer(mark))


def _integer(value: int) -> bytes:
    return value.to_bytes(4, "little")
