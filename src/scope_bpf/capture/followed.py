"""The processes that are followed: from their begin, or from when they are looked at, to their end."""

import time
from pathlib import Path

from scope_bpf.binding.mapping_watch import MappingWatch
from scope_bpf.code.history import History, Process
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.host import NO_DESCRIPTORS

_LOOK_EVERY_S = 10.0  # for those that ended: the kernel tells of nearly all


class Followed:
    """Keeps the history's processes. For one thread at a time.

    Args:
        grace_s: how long one is known that has ended.
    """

    def __init__(self, history: History, news: MappingWatch, grace_s: float) -> None:
        self._history, self._news, self._grace_s = history, news, grace_s
        self._next_look = 0.0
        self._gone: set[Process] = set()  # when they were looked at last

    def begin(self, pid: int, time_ns: int, parent: Process | None = None) -> Process:
        """Follows a process, which is seen first at a time (CLOCK_BOOTTIME)."""
        self._news.follow(pid)
        return self._history.begin(pid, time_ns, parent)

    def fork(self, parent: int, pid: int, time_ns: int) -> None:
        """A process was forked: it is followed if its parent is."""
        process, child = self._history.running(parent), self._history.running(pid)
        if child and child.known_ns >= time_ns:  # its own doings, on another CPU, were told first
            return
        if child:
            self._end(child)
        if process:
            self.begin(pid, time_ns, process)

    def end(self, pid: int) -> bool:
        """A process is said to have ended; False: it has not."""
        process = self._history.running(pid)
        if process and not _has_ended(process):
            return False
        if process:
            self._end(process)
        return True

    def _end(self, process: Process) -> None:
        self._history.end(process)
        self._news.follow(process.pid, False)

    def let_go(self) -> None:
        """Looks for processes that ended, and forgets those that did so a while ago.

        To be called after news was taken. One that looks ended is said to have at the next look: what it did last may
        not have been taken yet.
        """
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_EVERY_S
            gone = {process for process in self._history.processes() if _has_ended(process)}
            for process in gone & self._gone:
                self._end(process)
            self._gone = gone
        self._history.forget(self._grace_s)


def _has_ended(process: Process) -> bool:
    try:
        stat = stat_of(process.pid)
    except OSError as error:
        return error.errno not in NO_DESCRIPTORS
    if stat.start_ticks * TICK_NS > process.known_ns:  # its pid is another's
        return True
    return stat.threads <= 1 and (stat.state in ("Z", "X") or not _has_program(process.pid))


def _has_program(pid: int) -> bool:
    """False once it has let go of its memory. Its mappings would not tell: who reads them during an exec finds none."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    return True
