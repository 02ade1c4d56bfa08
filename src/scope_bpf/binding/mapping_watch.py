"""Watches executable mappings, forks and exits of processes, through the kernel's events for profilers."""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.binding.map import possible_cpus
from scope_bpf.errors import KernelError

FileId = tuple[int, int, int]  # major, minor, inode as /proc shows them

News = np.ndarray[Any, np.dtype[Any]]
"""Array of `scope_news` (cdef/shim.h), in order of time."""

_MOST_NEWS = 4096  # per read
_MOST_SOURCES = 1024  # descriptors, threads times CPUs; beyond, the whole machine is watched
_PAUSE_S = 0.004  # between reads; so many mappings at once do not wake us once each


class Kind(IntEnum):
    """The kinds of news."""

    MAPPED = lib.SCOPE_MAPPED
    FORKED = lib.SCOPE_FORKED
    ENDED = lib.SCOPE_ENDED


def _dtype_of(ctype: Any) -> np.dtype[Any]:
    """A C struct of the extension, member by member."""
    if ctype.kind == "struct":
        members = ctype.fields
        formats = [_dtype_of(member.type) for _, member in members]
        offsets = [member.offset for _, member in members]
        names = [name for name, _ in members]
        layout = {"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(ctype)}
        return np.dtype(layout)  # type: ignore[call-overload, no-any-return]
    if ctype.kind == "array":
        return np.dtype(f"S{ctype.length}")
    return np.dtype(f"{'i' if int(ffi.cast(ctype, -1)) < 0 else 'u'}{ffi.sizeof(ctype)}")


class MappingWatch:
    """Reports mappings, forks and ends of watched processes. For one thread.

    Attributes:
        is_whole: the whole machine is watched, so news of other processes is reported too.
        told_ns: all news until this time was reported, CLOCK_BOOTTIME.
        lost: how often the kernel's buffers were full and news was lost.

    Raises:
        KernelError: the kernel refused.
    """

    def __init__(self) -> None:
        self._cpus = possible_cpus()
        self._mappings: Any = lib.scope_mappings_new(self._cpus)
        if self._mappings == ffi.NULL:
            raise KernelError("cannot watch the mappings of processes", ffi.errno)
        self._room = np.zeros(_MOST_NEWS, _dtype_of(ffi.typeof("scope_news")))
        self._later = self._room[:0]
        self._read = 0.0
        self._sources = 0
        self.is_whole = False
        self.told_ns = self.lost = 0

    def watch_processes(self, pids: Iterable[int]) -> None:
        """Watches these processes and their children, instead of the previous ones.

        Other processes do not wake this thread then. If the processes have too many threads, the whole machine is
        watched.

        Raises:
            KernelError: the kernel refused.
        """
        self._start_anew(False)
        self.watch_also(pids)

    def watch_also(self, pids: Iterable[int]) -> None:
        """Watches more processes, unless the whole machine is watched.

        Raises:
            KernelError: the kernel refused.
        """
        known: set[int] = set()
        while not self.is_whole and (new := {tid for pid in pids for tid in _threads(pid)} - known):
            known |= new  # they may start more threads meanwhile
            self._sources += len(new) * self._cpus
            if self._sources > _MOST_SOURCES:
                self.watch_all()
                return
            for tid in new:
                with suppress(ProcessLookupError):
                    self._check(lib.scope_mappings_watch_thread(self._mappings, tid))

    def watch_cgroup(self, path: Path) -> None:
        """Watches a cgroup and its child cgroups, instead of the previous processes; if not possible, the whole
        machine.

        Raises:
            KernelError: the kernel refused.
        """
        self._start_anew(False)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._check(lib.scope_mappings_watch_cgroup(self._mappings, fd))
            finally:
                os.close(fd)
        except OSError:  # kernel without CONFIG_CGROUP_PERF, or the cgroup is gone
            self.watch_all()

    def watch_all(self) -> None:
        """Watches the whole machine, instead of the previous processes; see `know` and `follow`.

        Raises:
            KernelError: the kernel refused.
        """
        self._start_anew(True)
        self._check(lib.scope_mappings_watch_all(self._mappings))

    def _start_anew(self, is_whole: bool) -> None:
        lib.scope_mappings_watch_nothing(self._mappings)
        self._sources, self.is_whole = 0, is_whole

    def _check(self, result: int) -> None:
        try:
            check(result, "cannot watch the mappings of processes")
        except KernelError as error:
            if error.errno == errno.ESRCH:
                raise ProcessLookupError from None
            raise

    def descriptors(self) -> Iterator[int]:
        """Descriptors that become readable when there is news."""
        for cpu in range(self._cpus):
            if (fd := lib.scope_mappings_fd(self._mappings, cpu)) >= 0:
                yield fd

    def pause(self) -> None:
        """Waits a few milliseconds if the last read was just now."""
        time.sleep(max(0.0, self._read + _PAUSE_S - time.monotonic()))

    def read(self) -> News:
        """The wanted news since the last read.

        News that arrives during the read is kept for the next one. Otherwise the end of a process could be reported
        before one of its mappings, which arrives in a ring that was already read.
        """
        self._read, self.told_ns = time.monotonic(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        room, lost = ffi.from_buffer("scope_news[]", self._room), ffi.new("uint32_t *")
        parts, count = [self._later], len(self._room)
        while count == len(self._room):
            count = lib.scope_mappings_read(self._mappings, room, len(self._room), lost)
            parts.append(self._room[:count].copy())
        self.lost += int(lost[0] > 0)
        found = np.concatenate(parts)
        found = found[np.argsort(found["time_ns"], kind="stable")]
        until = np.searchsorted(found["time_ns"], self.told_ns, "right")
        self._later = found[until:]
        return found[:until]

    @property
    def has_more(self) -> bool:
        """Whether there is more news, although no descriptor is readable."""
        return len(self._later) > 0

    def know(self, news: Any) -> None:
        """While the whole machine is watched: skips mappings of known files, except by followed processes."""
        names = ("major", "minor", "inode", "generation")
        lib.scope_mappings_know(self._mappings, {name: int(news["file"][name]) for name in names})

    def follow(self, pid: int, followed: bool = True) -> None:
        """While the whole machine is watched: reports all news of a process, or stops to."""
        lib.scope_mappings_follow(self._mappings, pid, followed)

    def close(self) -> None:
        """Frees the kernel's buffers. May be called again."""
        if self._mappings != ffi.NULL:
            lib.scope_mappings_free(self._mappings)
            self._mappings = ffi.NULL


def _threads(pid: int) -> list[int]:
    try:
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
