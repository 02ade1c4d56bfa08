"""Which cgroups there are, in all mounted hierarchies: that of cgroup v2, and those of cgroup v1's controllers."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scope_bpf.cgroups.files import CONTROLLERS, UNIFIED, Figures, Files, Parse, read

_LEAF = 2  # links of a folder without folders, as kernfs counts them (kernfs_refresh_inode)


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy.

    Attributes:
        root: the mount point.
        files: those of each cgroup that are read.
        is_unified: it is that of cgroup v2.
    """

    root: str
    files: Files
    is_unified: bool


@dataclass(frozen=True)
class Cgroup:
    """A cgroup, by its path in all hierarchies that have it.

    Attributes:
        path: as in `/proc/PID/cgroup`.
        id_: as events have it: the inode number in cgroup v2; 0: it is only in cgroup v1.
        identity: inode numbers, which another cgroup with the same path does not have.
    """

    path: str
    id_: int
    identity: tuple[int, ...]
    _hierarchies: Sequence[Hierarchy]

    def counted(self) -> Figures:
        """What tells whether it did anything; empty: it has ended."""
        return self._read(lambda files: files.always)

    def details(self) -> Figures:
        """What else there is to say."""
        return self._read(lambda files: files.details)

    def _read(self, which: Callable[[Files], Mapping[str, Parse]]) -> Figures:
        found: Figures = {}
        for hierarchy in self._hierarchies:
            found = read(hierarchy.root + self.path, which(hierarchy.files)) | found
        return found


def hierarchies(proc: Path = Path("/proc")) -> list[Hierarchy]:
    """Those that are mounted here: that of cgroup v2 first, whose figures go before those of cgroup v1."""
    unified: list[Hierarchy] = []
    others: dict[str, Hierarchy] = {}
    try:
        mounts = (proc / "self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    for line in mounts:
        left, _, right = line.partition(" - ")
        root, (kind, *_, options) = left.split()[4], right.split()
        if kind == "cgroup2":
            unified.append(Hierarchy(root, UNIFIED, is_unified=True))
        elif kind == "cgroup" and (found := [CONTROLLERS[name] for name in options.split(",") if name in CONTROLLERS]):
            always = {name: parse for files in found for name, parse in files.always.items()}
            details = {name: parse for files in found for name, parse in files.details.items()}
            others.setdefault(options, Hierarchy(root, Files(always, details), is_unified=False))
    return [*unified[:1], *others.values()]


def cgroups(of: Sequence[Hierarchy]) -> Iterator[Cgroup]:
    """All cgroups but the roots, which are the machine."""
    found: dict[str, list[tuple[Hierarchy, int]]] = {}
    for hierarchy in of:
        for path, inode in _below(hierarchy.root):
            found.setdefault(path, []).append((hierarchy, inode))
    for path, places in found.items():
        id_ = next((inode for hierarchy, inode in places if hierarchy.is_unified), 0)
        yield Cgroup(path, id_, tuple(inode for _, inode in places), [hierarchy for hierarchy, _ in places])


def _below(root: str) -> Iterator[tuple[str, int]]:
    """Path and inode number of each folder; outer ones first."""
    paths = [""]
    for path in paths:  # which grows meanwhile
        try:
            found = os.stat(root + path)  # noqa: PTH116 - paths of a thousand cgroups take a while to make
            if found.st_nlink != _LEAF:
                paths += _folders(root, path)
        except OSError:  # it has ended
            continue
        if path:
            yield path, found.st_ino


def _folders(root: str, path: str) -> list[str]:
    with os.scandir(root + path) as entries:
        return [f"{path}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
