"""What processes had mapped to be run, and when: whose code an address was at a time.

The kernel tells of what is mapped, not of what is unmapped. That is enough: what ran at an address was what had been
mapped there last.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scope_bpf.code.modules import Module

_MANY = 256  # mappings more than there were


@dataclass(frozen=True, slots=True)
class Mapped:
    """Code in a process's memory, from a time on (ns, CLOCK_BOOTTIME; 0: since before it was looked at).

    Attributes:
        module: None: no file, or none that could be read.
    """

    since_ns: int
    start: int
    end: int
    offset: int
    module: Module | None


@dataclass(eq=False)
class Process:
    """One process, as long as it has its pid.

    Attributes:
        pid: in the initial namespace.
        known_ns: when it was seen first, CLOCK_BOOTTIME: not before it started.
        texts: what its stacks are called, by number and age; for the thread that makes columns.
        replaced_ns: when another file's code took the place of what was there.
    """

    pid: int
    known_ns: int
    mapped: list[Mapped] = field(default_factory=list)
    modules: set[Module] = field(default_factory=set)
    looked_at: int = 0  # mappings that it had when it was looked at
    ended: float | None = None
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    replaced_ns: list[int] = field(default_factory=list)
    gone: dict[Mapped, float] = field(default_factory=dict)  # not mapped any more when it was looked at, since when

    def at(self, address: int, time_ns: int) -> Mapped | None:
        """What lay at an address."""
        for one in reversed(self.mapped):
            if one.start <= address < one.end and one.since_ns <= time_ns:
                return one
        return None

    def age_at(self, time_ns: int) -> int:
        """How often another file's code had taken the place of what was there; addresses have other names then."""
        return bisect_right(self.replaced_ns, time_ns)


class History:
    """The processes that are followed, and those that ended a little while ago.

    One thread tells what happens (all that changes it), any thread may ask (`find`).

    Attributes:
        catch_up: has taken note of what the kernel has told so far, and of a process; set by who reads it.
        told_ns: what happened until then is known, CLOCK_BOOTTIME; set likewise.
        has_replaced: in some process another file's code took the place of what was there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pid: dict[int, list[Process]] = {}  # those that had a pid, in order of time
        self._users: Counter[Module] = Counter()  # processes that have it mapped
        self.catch_up: Callable[[int], None] = lambda _: None
        self.told_ns = 0
        self.has_replaced = False

    def find(self, pid: int, start_ns: int) -> Process | None:
        """A process by its pid and when it started; None if it is not known."""
        with self._lock:
            for process in self._by_pid.get(pid, ()):
                if process.known_ns >= start_ns:
                    return process
        return None

    def catch_up_to(self, time_ns: int) -> None:
        """Has what happened until then known. Not for who tells."""
        if time_ns > self.told_ns:
            self.catch_up(0)

    def following(self, pid: int, start_ns: int) -> Process | None:
        """The same, also if only what the kernel has told meanwhile makes it known. Not for who tells."""
        process = self.find(pid, start_ns)
        if not process:
            self.catch_up(pid)
            process = self.find(pid, start_ns)
        return process

    def running(self, pid: int) -> Process | None:
        """The process that has a pid now."""
        having = self._by_pid.get(pid)
        return having[-1] if having and having[-1].ended is None else None

    def processes(self) -> Iterator[Process]:
        """Those that run."""
        for having in list(self._by_pid.values()):
            if having[-1].ended is None:
                yield having[-1]

    def begin(self, pid: int, time_ns: int, parent: Process | None = None) -> Process:
        """A process is seen first, with what its parent had mapped."""
        process = Process(pid, time_ns)
        with self._lock:
            self._by_pid.setdefault(pid, []).append(process)
            if parent:
                process.mapped = list(parent.mapped)
                process.modules = set(parent.modules)
                process.looked_at = parent.looked_at
                self._users.update(process.modules)
        return process

    def add(self, process: Process, mapped: Mapped) -> None:
        """A process has mapped code."""
        with self._lock:
            there = process.at(mapped.start, mapped.since_ns)
            if there and (there.module, there.start - there.offset) != (mapped.module, mapped.start - mapped.offset):
                process.replaced_ns.append(mapped.since_ns)
                self.has_replaced = True
            process.mapped.append(mapped)
            self._use(process, mapped.module)

    def _use(self, process: Process, module: Module | None) -> None:
        if module and module not in process.modules:
            process.modules.add(module)
            self._users[module] += 1

    def is_to_be_looked_at(self, process: Process) -> bool:
        """Whether much of what it mapped may be unmapped by now."""
        return len(process.mapped) > 2 * process.looked_at + _MANY

    def prune(self, process: Process, bases: Collection[int], grace_s: float) -> None:
        """Forgets what a process had mapped and had not when it was looked at, now and a while ago.

        Args:
            bases: of all that it has mapped now, the address less the offset in the file.
            grace_s: how long a while is.
        """
        now = time.monotonic()
        gone = {one: process.gone.get(one, now) for one in process.mapped if one.start - one.offset not in bases}
        process.gone = {one: since for one, since in gone.items() if since > now - grace_s}
        kept = [one for one in process.mapped if one not in gone or one in process.gone]
        with self._lock:
            process.mapped = kept
            process.looked_at = len(kept)
            used = {one.module for one in kept if one.module}
            self._take_off(process.modules - used)
            process.modules = used
            if len(process.replaced_ns) > _MANY:  # ages are counted anew
                process.replaced_ns, process.texts = process.replaced_ns[-1:], {}

    def end(self, process: Process) -> None:
        """A process is gone. What is known of it is kept for a while."""
        with self._lock:
            if process.ended is None:
                process.ended = time.monotonic()

    def forget(self, grace_s: float) -> None:
        """Forgets processes that ended longer ago."""
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
        """Whether a process has a module mapped that runs, or ended a little while ago."""
        return self._users[module] > 0

    def __len__(self) -> int:
        return sum(len(having) for having in self._by_pid.values())
