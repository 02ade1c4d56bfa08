"""SCOPE's own processes, which no task records."""

import os
from collections.abc import Iterable
from pathlib import Path


def families(roots: Iterable[int]) -> set[int]:
    """This process, the given ones and all their descendants. The kernel filter excludes later descendants itself."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                told = (folder / "stat").read_bytes()  # a name may be any bytes
                parent = int(told.rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # the process ended meanwhile
            children.setdefault(parent, []).append(int(folder.name))
    family: set[int] = set()
    waiting = [os.getpid(), *roots]
    while waiting:
        pid = waiting.pop()
        family.add(pid)
        waiting += children.get(pid, [])
    return family
