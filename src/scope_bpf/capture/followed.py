"""Followed processes: from their start, or from the first look at them, until they end."""

import time
from pathlib import Path

from scope_bpf.binding.mapping_watch import MappingWatch
from scope_bpf.code.history import History, Process
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.host import NO_DESCRIPTORS

_LOOK_EVERY_S = 10.0  # checks for ended processes, since the kernel does not report every end


class Followed:
    """Keeps the processes of the history up to date. For one thread at a time.

    Args:
        grace_s: how long an ended process is kept.
    """

    def __init__(self, history: History, news: MappingWatch, grace_s: float) -> None:
        self._history, self._news, self._grace_s = history, news, grace_s
        self._next_look = 0.0
        self._gone: set[Process] = set()  # ended at the last check

    def begin(self, pid: int, time_ns: int, parent: Process | None = None) -> Process:
        """Follows a process that was first seen at `time_ns` (CLOCK_BOOTTIME)."""
        self._news.follow(pid)
        return self._history.begin(pid, time_ns, parent)

    def fork(self, parent: int, pid: int, time_ns: int) -> None:
        """Notes a fork: the child is followed if its parent is."""
        process, child = self._history.running(parent), self._history.running(pid)
        if child and child.known_ns >= time_ns:  # news of the child itself, from another CPU, came first
            return
        if child:
            self._end(child)
        if process:
            self.begin(pid, time_ns, process)

    def end(self, pid: int) -> bool:
        """Notes that a process was reported to have ended; False: it still runs."""
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
        """Finds ended processes, and forgets those that ended more than `grace_s` ago.

        Call this after taking the news. A process counts as ended only at the second check: news of it may still be
        missing at the first.
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
    if stat.start_ticks * TICK_NS > process.known_ns:  # another process has its pid
        return True
    return stat.threads <= 1 and (stat.state in ("Z", "X") or not _has_program(process.pid))


def _has_program(pid: int) -> bool:
    """False once the process has freed its memory. Its mappings do not show this: during an exec there are none."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    return True
