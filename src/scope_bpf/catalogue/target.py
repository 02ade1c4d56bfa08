"""Targets: which processes a task watches, converted to the conditions of the filter in the kernel."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scope_bpf.containers.containers import Containers
from scope_bpf.errors import TargetNotFound
from scope_bpf.host import cgroup_root
from scope_catalogue.target import check_target

_COMM_BYTES = 15
_LEAST_DIGITS = 12  # of a container's id, as engines show it


@dataclass(frozen=True)
class Target:
    """Which processes to watch. All fields that are set must match; with none set, the whole machine is watched.

    Attributes:
        pid: a process and the children that it starts from now on; the pid as seen in this process's pid namespace.
        comm: the exact name of a thread.
        exe: path of an executable, as seen by this process.
        cgroup: path below the cgroup v2 root mounted here; child cgroups are included.
        container: name of a container, or its id or the first 12 characters of it or more; child cgroups are included.
    """

    pid: int = 0
    comm: str = ""
    exe: str = ""
    cgroup: str = ""
    container: str = ""

    def conditions(self) -> Mapping[str, Any]:
        """Members of `struct scope_filter` by name; the filter adds the values that only the kernel knows.

        Raises:
            TargetNotFound: the process, thread name, executable or cgroup does not exist; the message says what to do.
        """
        conditions: dict[str, Any] = {}
        if self.pid:
            _check_process(self.pid)
        if self.comm:
            name = os.fsencode(self.comm)  # the command line may hold any bytes
            if len(name) > _COMM_BYTES:
                raise TargetNotFound(
                    f"no thread can have the name '{self.comm}': names have at most {_COMM_BYTES} bytes"
                )
            conditions |= {"by_comm": 1, "comm": name}
        if self.exe:
            _check_executable(self.exe)
        self.cgroup_folder()
        return conditions

    def cgroup_folder(self) -> Path | None:
        """The directory of the cgroup or container to watch; None: not set.

        Raises:
            TargetNotFound: the cgroup or container does not exist, or both are set.
        """
        if not self.cgroup and not self.container:
            return None
        if self.cgroup and self.container:
            raise TargetNotFound("a cgroup and a container cannot both be the target; give one")
        root = cgroup_root()
        if root is None:
            raise TargetNotFound("no cgroup v2 is mounted here, so a cgroup or container cannot be the target")
        folder = (
            _container_cgroup(root, self.container)
            if self.container
            else root / self.cgroup.removeprefix(str(root)).strip("/")
        )
        if not folder.is_dir() or folder.stat().st_dev != root.stat().st_dev:
            raise TargetNotFound(f"there is no cgroup '{folder}'")
        return folder


def target_of(given: Mapping[str, Any]) -> Target:
    """The target with the fields that a user gave.

    Raises:
        InvalidTarget: a field is 0, negative or empty.
    """
    check_target(given)
    return Target(**given)


def _check_process(pid: int) -> None:
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        raise TargetNotFound(f"no process has pid {pid}; `ps` lists running processes") from None
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


def _container_cgroup(root: Path, wanted: str) -> Path:
    """The outermost cgroup of a container."""
    containers = Containers()
    found: dict[str, Path] = {}
    for directory, _, _ in os.walk(root):
        path = Path(directory)
        belongs = containers.of(f"0::/{path.relative_to(root)}")
        id_ = belongs.container_id
        if id_ and id_ not in found and (wanted in (belongs.container_name, id_) or _begins(id_, wanted)):
            found[id_] = path
    if not found:
        raise TargetNotFound(
            f"no cgroup v2 belongs to a container '{wanted}'; give its name, or {_LEAST_DIGITS} digits of its id"
        )
    if len(found) > 1:
        raise TargetNotFound(f"several containers are called '{wanted}'; give an id: {', '.join(sorted(found))}")
    return found.popitem()[1]


def _begins(id_: str, wanted: str) -> bool:
    return len(wanted) >= _LEAST_DIGITS and id_.startswith(wanted)
