"""Whom a task watches: turned into what the filter in the kernel compares."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scope_bpf.errors import TargetNotFound
from scope_bpf.host import cgroup_root

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
        if (path := self.cgroup_path()) and (root := cgroup_root()):
            conditions |= _cgroup_conditions(root, path)
        return conditions

    def cgroup_path(self) -> Path | None:
        """The folder of the cgroup that is the target; None: it is none.

        Raises:
            TargetNotFound: there is none, or no single one.
        """
        if self.cgroup and self.container:
            raise TargetNotFound("a cgroup and a container cannot both be the target; give one")
        if not self.cgroup and not self.container:
            return None
        root = cgroup_root()
        if root is None:
            raise TargetNotFound("no cgroup v2 is mounted here, so a cgroup cannot be the target")
        return _container_cgroup(root, self.container) if self.container else root / self.cgroup.strip("/")


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
