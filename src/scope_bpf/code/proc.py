"""Reads a process's state from /proc."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICK_NS = 10_000_000  # USER_HZ is 100, include/asm-generic/param.h
_LONGEST = 2048  # bytes of /proc/PID/stat: 52 numbers of 20 digits and a name of 64


class Stat(NamedTuple):
    """Fields 2, 3, 4, 14 and 15, 20, 22 and 28 of /proc/PID/stat, see proc(5).

    Attributes:
        cpu_ticks: CPU time of all its threads, in units of TICK_NS.
        start_ticks: start time since boot, in units of TICK_NS.
    """

    comm: str
    state: str
    parent: int
    cpu_ticks: int
    threads: int
    start_ticks: int
    start_stack: int


def stat_of(pid: int) -> Stat:
    """The current state of a process.

    Raises:
        OSError: the process has ended.
    """
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)  # pathlib takes longer than the kernel; some read many each second
    try:
        text = os.read(fd, _LONGEST)
    finally:
        os.close(fd)
    name, _, rest = text.partition(b"(")[2].rpartition(b")")  # a name may contain any character
    fields = rest.split()
    comm = name.decode(errors="backslashreplace")
    parent, user, system, threads, start, stack = (int(fields[number]) for number in (1, 11, 12, 17, 19, 25))
    return Stat(comm, fields[0].decode(), parent, user + system, threads, start, stack)


def members_of(cgroup: Path) -> set[int]:
    """The processes in a cgroup and its child cgroups."""
    members: set[int] = set()
    for path in cgroup.rglob("cgroup.procs"):
        with suppress(OSError):
            members.update(map(int, path.read_text().split()))
    return members
