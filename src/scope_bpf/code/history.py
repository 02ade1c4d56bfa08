"""The history of executable mappings: which file's code was at an address of a process at a given time.

The kernel reports new mappings but not unmappings. That is enough: the code that ran at an address was always the last
mapping there.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scope_bpf.catalogue.stream import Rows

if TYPE_CHECKING:
    from scope_bpf.code.modules import Module

_MANY = 256  # new mappings after which to look at the process again


@dataclass(frozen=True, slots=True)
class Mapped:
    """Code in a process's memory, since a time (ns, CLOCK_BOOTTIME; 0: since before the first look).

    Attributes:
        module: the file; None: no file, or it could not be read.
    """

    since_ns: int
    start: int
    end: int
    offset: int
    module: Module | None


@dataclass(eq=False)
class Process:
    """One process.

    Attributes:
        pid: host pid (initial pid namespace).
        known_ns: when the process was first seen, CLOCK_BOOTTIME; at or after its start.
        texts: texts of its stacks, by number and age; only for the thread that makes columns.
        frames: named frames of its stacks, by the code and the address; likewise.
        replaced_ns: times at which another file's code replaced earlier code.
    """

    pid: int
    known_ns: int
    mapped: list[Mapped] = field(default_factory=list)
    modules: set[Module] = field(default_factory=set)
    looked_at: int = 0  # number of mappings at the last look
    ended: float | None = None
    texts: dict[tuple[int, int], Any] = field(default_factory=dict)
    frames: dict[tuple[Mapped, int], Any] = field(default_factory=dict)
    replaced_ns: list[int] = field(default_factory=list)
    found: dict[int, Mapped] = field(default_factory=dict)  # the latest code at addresses that were asked for
    gone: dict[Mapped, float] = field(default_factory=dict)  # no longer mapped at the last look, and since when

    def at(self, address: int, time_ns: int) -> Mapped | None:
        """The code at an address at this time."""
        found = self.found  # another thread may replace it as soon as code is mapped
        known = found.get(address)
        if known and known.since_ns <= time_ns:
            return known
        latest = True
        for one in reversed(self.mapped):
            if one.start <= address < one.end:
                if one.since_ns <= time_ns:
                    if latest:
                        found[address] = one
                    return one
                latest = False
        return None

    def age_at(self, time_ns: int) -> int:
        """How often code had been replaced by another file's until this time; addresses then have other names."""
        return bisect_right(self.replaced_ns, time_ns)


class Listener:
    """Is told what the history notes; here: does nothing with it."""

    def mapped(self, process: Process, mapped: Mapped) -> None:
        """A process has mapped code."""

    def forked(self, parent: Process, child: Process) -> None:
        """A process has the same code as its parent, at the same addresses."""

    def pruned(self, process: Process) -> None:
        """Mappings that are gone were forgotten; the process's `mapped` has the others."""

    def ended(self, process: Process) -> None:
        """A process has ended."""

    def told(self) -> None:
        """All news so far were noted."""


class History:
    """The followed processes, including recently ended ones.

    One thread changes the history; any thread may call `find`.

    Attributes:
        catch_up: function that takes the kernel's latest news of a process; set by the thread that reads the news.
        listener: is told what is noted, by the thread that reads the news.
        told_ns: all news until this time was taken, CLOCK_BOOTTIME; set by the same thread.
        has_replaced: in some process, code was replaced by another file's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pid: dict[int, list[Process]] = {}  # processes that had the same pid, in order of time
        self._users: Counter[Module] = Counter()  # number of processes that map the module
        self.catch_up: Callable[[int], None] = lambda _: None
        self.listener = Listener()
        self.told_ns = 0
        self.has_replaced = False

    def find(self, pid: int, start_ns: int) -> Process | None:
        """The process with this pid and start time; None if unknown."""
        with self._lock:
            for process in self._by_pid.get(pid, ()):
                if process.known_ns >= start_ns:
                    return process
        return None

    def ages(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.int64]]:
        """For each row, how often code in its process had been replaced by another file's until the row's time.

        Args:
            rows: with pid, start_ns and ktime_ns.
        """
        ages = np.zeros(len(rows), np.int64)
        for pid in np.unique(rows["pid"]).tolist() if self.has_replaced else ():
            own = np.flatnonzero(rows["pid"] == pid)
            process = self.find(pid, int(rows[own[0]]["start_ns"]))
            if process and process.replaced_ns:
                ages[own] = np.searchsorted(process.replaced_ns, rows["ktime_ns"][own], "right")
        return ages

    def catch_up_to(self, time_ns: int) -> None:
        """Makes sure that all news until a time was taken. Not for the thread that takes the news."""
        if time_ns > self.told_ns:
            self.catch_up(0)

    def following(self, pid: int, start_ns: int) -> Process | None:
        """Like `find`, but takes the latest news if necessary. Not for the thread that takes the news."""
        process = self.find(pid, start_ns)
        if not process:
            self.catch_up(pid)
            process = self.find(pid, start_ns)
        return process

    def running(self, pid: int) -> Process | None:
        """The running process with this pid."""
        having = self._by_pid.get(pid)
        return having[-1] if having and having[-1].ended is None else None

    def processes(self) -> Iterator[Process]:
        """All running processes."""
        for having in list(self._by_pid.values()):
            if having[-1].ended is None:
                yield having[-1]

    def known(self) -> list[Process]:
        """All processes, including recently ended ones."""
        with self._lock:
            return [process for having in self._by_pid.values() for process in having]

    def begin(self, pid: int, time_ns: int, parent: Process | None = None) -> Process:
        """Adds a process, with the mappings of its parent."""
        process = Process(pid, time_ns)
        with self._lock:
            self._by_pid.setdefault(pid, []).append(process)
            if parent:
                process.mapped = list(parent.mapped)
                process.modules = set(parent.modules)
                process.looked_at = parent.looked_at
                self._users.update(process.modules)
                self.listener.forked(parent, process)
        return process

    def add(self, process: Process, mapped: Mapped) -> None:
        """Adds a mapping to a process."""
        with self._lock:
            there = process.at(mapped.start, mapped.since_ns)
            if there and (there.module, there.start - there.offset) != (mapped.module, mapped.start - mapped.offset):
                process.replaced_ns.append(mapped.since_ns)
                self.has_replaced = True
            process.mapped.append(mapped)
            self._use(process, mapped.module)
            process.found, process.frames = {}, {}
        self.listener.mapped(process, mapped)

    def _use(self, process: Process, module: Module | None) -> None:
        if module and module not in process.modules:
            process.modules.add(module)
            self._users[module] += 1

    def is_to_be_looked_at(self, process: Process) -> bool:
        """Whether many of its known mappings may be unmapped by now."""
        return len(process.mapped) > 2 * process.looked_at + _MANY

    def prune(self, process: Process, bases: Collection[int], grace_s: float) -> None:
        """Forgets mappings that were missing both now and at a look more than `grace_s` ago.

        Args:
            bases: for each current mapping, its address minus its offset in the file.
            grace_s: how long missing mappings are kept, in s.
        """
        now = time.monotonic()
        gone = {one: process.gone.get(one, now) for one in process.mapped if one.start - one.offset not in bases}
        process.gone = {one: since for one, since in gone.items() if since > now - grace_s}
        kept = [one for one in process.mapped if one not in gone or one in process.gone]
        with self._lock:
            process.mapped = kept
            process.found = {}
            process.looked_at = len(kept)
            used = {one.module for one in kept if one.module}
            self._take_off(process.modules - used)
            process.modules = used
            if len(process.replaced_ns) > _MANY:  # ages start at 0 again
                process.replaced_ns, process.texts = process.replaced_ns[-1:], {}
            self.listener.pruned(process)

    def end(self, process: Process) -> None:
        """Notes that a process has ended. Its data is kept for a while."""
        with self._lock:
            if process.ended is None:
                process.ended = time.monotonic()
                self.listener.ended(process)

    def forget(self, grace_s: float) -> None:
        """Forgets processes that ended more than `grace_s` ago."""
        since = time.monotonic() - grace_s
        with self._lock:
            for pid, having in list(self._by_pid.items()):
                if having[0].ended is None:
                    continue
                kept = [process for process in having if process.ended is None or process.ended > since]
                for process in set(having) - set(kept):
                    self._take_off(process.modules)
                if kept:
                    self._by_pid[pid] = kept
                else:
                    del self._by_pid[pid]

    def _take_off(self, modules: Iterable[Module]) -> None:
        for module in modules:
            self._users[module] -= 1
            if not self._users[module]:
                del self._users[module]

    def is_used(self, module: Module) -> bool:
        """Whether a running or recently ended process has this module mapped."""
        return self._users[module] > 0

    def __len__(self) -> int:
        return sum(len(having) for having in self._by_pid.values())
