"""Asks the kernel for its own ids of files, cgroups and processes, which differ from those in user space."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import record_dtype

_INODE, _CGROUP, _PROCESS = QUESTIONS = ("scope_find_inode", "scope_find_cgroup", "scope_find_process")  # programs


class Lookup:
    """Runs programs of a loaded object (find.bpf.h) that inspect a descriptor of this process."""

    def __init__(self, btf: Btf, loaded: BpfObject) -> None:
        self._dtype = record_dtype(btf, "scope_found")
        self._object = loaded
        self._found = loaded.map(".data.found")

    def inode(self, fd: int) -> int:
        """The kernel address of an open file's inode; valid as long as the file is open."""
        return int(self._ask(_INODE, fd)["inode"])

    def cgroup(self, folder: Path) -> tuple[int, int]:
        """The id of the cgroup v2 with this directory, and its depth below the root cgroup.

        Raises:
            OSError: it no longer exists.
        """
        with _held(folder) as fd:
            found = self._ask(_CGROUP, fd)
        return int(found["cgroup_id"]), int(found["cgroup_level"])

    def process(self, pid: int) -> int:
        """The host pid (initial pid namespace) of the process that is `pid` in this process's /proc.

        Raises:
            OSError: it no longer exists.
        """
        with _held(Path(f"/proc/{pid}")) as fd:
            return int(self._ask(_PROCESS, fd)["pid"])

    def _ask(self, program: str, fd: int) -> Any:
        self._object.run(program, fd)
        return np.frombuffer(self._found.lookup(bytes(4)), self._dtype, 1)[0]


@contextmanager
def _held(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
