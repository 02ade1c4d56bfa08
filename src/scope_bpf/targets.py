"""Whom a task watches: turned into what the filter in the kernel compares."""

import os
import re
import stat
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scope_bpf.btf import Btf
from scope_bpf.errors import LayoutMismatch, TargetNotFound
from scope_bpf.host import cgroup_root
from scope_bpf.layout import layout_of
from scope_bpf.object import BpfObject

FIND_INODE = "scope_find_inode"  # filter.bpf.h
_EXCLUDED = 0  # SCOPE_EXCLUDED in filter.bpf.h
_COMM_BYTES = 15
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")  # docker-ID.scope, cri-containerd-ID.scope, ID


@dataclass(frozen=True)
class Target:
    """Whom to watch; empty: the whole machine. Fields that are set all have to hold.

    Attributes:
        pid: a process, and the children it starts from now on.
        comm: the name of a thread, exactly.
        exe: path of an executable, as this process sees it.
        cgroup: path below the cgroup v2 root; what is below it counts as well.
        container: id of a container, or the begin of one: 12 hexadecimal digits or more.
    """

    pid: int = 0
    comm: str = ""
    exe: str = ""
    cgroup: str = ""
    container: str = ""

    def conditions(self) -> Mapping[str, Any]:
        """Members of `struct scope_filter` by name; those that the kernel has to be asked for, the filter adds.

        Raises:
            TargetNotFound: something named does not exist; the message says what to do.
        """
        conditions: dict[str, Any] = {}
        if self.pid:
            _check_process(self.pid)
        if self.comm:
            name = self.comm.encode()
            if len(name) > _COMM_BYTES:
                raise TargetNotFound(f"no thread is named '{self.comm}': names have at most {_COMM_BYTES} bytes")
            conditions |= {"by_comm": 1, "comm": name}
        if self.exe:
            _check_executable(self.exe)
        if self.cgroup and self.container:
            raise TargetNotFound("a cgroup and a container cannot both be the target; give one")
        if self.cgroup or self.container:
            root = cgroup_root()
            if root is None:
                raise TargetNotFound("no cgroup v2 is mounted here, so a cgroup cannot be the target")
            path = _container_cgroup(root, self.container) if self.container else root / self.cgroup.strip("/")
            conditions |= _cgroup_conditions(root, path)
        return conditions


def _check_process(pid: int) -> None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        raise TargetNotFound(f"no process has pid {pid}; `ps` lists those that run") from None
    leader = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Tgid:"))
    if leader != pid:
        raise TargetNotFound(f"{pid} is a thread of process {leader}; watch the process")


def _check_executable(exe: str) -> None:
    try:
        mode = Path(exe).stat().st_mode
    except OSError as error:
        raise TargetNotFound(f"cannot watch the executable '{exe}': {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise TargetNotFound(f"cannot watch the executable '{exe}': it is not a file")


def _cgroup_conditions(root: Path, path: Path) -> dict[str, Any]:
    try:
        inode = path.stat().st_ino  # a cgroup's id is its directory's inode, kernfs since 5.5
    except OSError:
        raise TargetNotFound(f"there is no cgroup '{path}'") from None
    return {"by_cgroup": 1, "cgroup_id": inode, "cgroup_level": len(path.relative_to(root).parts)}


def container_of(cgroup: str) -> str:
    """The id of the container that a cgroup's path names: 64 hexadecimal digits in its last such part, or empty."""
    found = _CONTAINER.findall(cgroup)
    return found[-1] if found else ""


def _container_cgroup(root: Path, container: str) -> Path:
    if len(container) < 12 or not all(digit in "0123456789abcdef" for digit in container):
        raise TargetNotFound(f"'{container}' is no container id: 12 hexadecimal digits or more")
    found = [Path(directory) for directory, _, _ in os.walk(root) if container in Path(directory).name]
    if not found:
        raise TargetNotFound(f"no cgroup belongs to container '{container}'")
    return min(found, key=lambda path: len(path.parts))


class Filter:
    """The filter of a loaded object, filter.bpf.h. Changeable while programs run."""

    def __init__(self, btf: Btf, loaded: BpfObject) -> None:
        struct = btf.struct("scope_filter")
        if struct is None:
            raise LayoutMismatch("the object has no struct scope_filter")
        self._dtype = layout_of(struct).dtype
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
            self._mark(self._target.pid, _EXCLUDED)
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
            self._mark(pid, _EXCLUDED)

    def _mark(self, pid: int, mark: int) -> None:
        self._pids.update(_integer(pid), _integer(mark))


def _integer(value: int) -> bytes:
    return value.to_bytes(4, "little")
