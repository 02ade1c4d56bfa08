"""The files in which a probe is attached: each once, as long as a process maps it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from scope_bpf.binding.uprobe import UprobeLinks
from scope_bpf.capture.missed import Late
from scope_bpf.capture.retries import Retries
from scope_bpf.capture.uprobe import Places, Uprobes
from scope_bpf.code.effort import give_up_at
from scope_bpf.code.modules import Module
from scope_bpf.code.resolver import Resolver
from scope_bpf.errors import GivenUp, KernelError

log = logging.getLogger(__name__)

_LATE_KEPT = 64
_LATE_NS = 1_000_000  # shorter delays are not reported
_MOST_TOLD = 20  # files in notes
_DETACHING = 8  # files at once: the kernel needs 50 ms for one file, and no longer for eight


class Attachments:
    """Attaches in modules. For one thread at a time, which holds the lock; `close` takes the lock itself.

    Args:
        libraries: prefixes of file names; these files are attached first.
        retries: while `retries.waits`, everything is done at once; later, slow work is done in other threads.
        lock: those threads take this lock for the short parts of their work.
        ending: once it is set, no code is read and nothing is attached any more.

    Attributes:
        is_closed: no more files are attached.
        pinned: modules that processes may run later; set by the caller.
        late: the latest files that were attached after a watched process had mapped them.
        late_count: number of all such files.
        refused: number of files in which the kernel refused to attach.
        functions: number of functions attached in files that watched processes have used.
        left_out: what of files was not read when functions were looked for, as text, by path.
    """

    def __init__(
        self,
        places: Places,
        libraries: tuple[str, ...],
        resolver: Resolver | None,
        retries: Retries,
        lock: AbstractContextManager[Any],
        *,
        ending: threading.Event,
    ) -> None:
        self._places, self._libraries, self._resolver = places, libraries, resolver
        self._retries, self._lock, self._ending = retries, lock, ending
        self._scanner = ThreadPoolExecutor(1, "scope-scan", give_up_at, (ending,))
        self._detacher = ThreadPoolExecutor(
            _DETACHING, "scope-detach"
        )  # its work takes no lock, since a thread with the lock may wait for it
        self._detaching: dict[int, Future[None]] = {}  # by inode
        self._uprobes: dict[Module, Uprobes] = {}  # modules with functions or names
        self._looked_at: set[Module] = set()
        self._functions: dict[Module, int] = {}
        self._used: set[Module] = set()
        self.pinned: set[Module] = set()
        self.late: deque[Late] = deque(maxlen=_LATE_KEPT)
        self.late_count = self.refused = 0
        self.functions = 0
        self.left_out: dict[str, str] = {}
        self.is_closed = False

    def __contains__(self, module: object) -> bool:
        """Whether a module has functions or names, or was not read yet."""
        return module in self._uprobes

    def attach(self, module: Module, mapped_ns: int = 0) -> None:
        """Attaches in a module, unless this was done before.

        Args:
            mapped_ns: when a watched process mapped the module, CLOCK_BOOTTIME; 0: unknown.

        Raises:
            KernelError: the kernel refused.
        """
        if module in self._looked_at:
            return
        self._looked_at.add(module)
        wanted = self._resolver.add_module(module) if self._resolver else False
        self._uprobes[module] = Uprobes(self._places)
        if self._ending.is_set():
            return
        try:
            self._retries.attempt(f"attach to {module.path}", lambda: self._put(module, {}, mapped_ns, wanted))
        except KernelError:
            del self._uprobes[module]
            raise
        if wanted and self._retries.waits:
            self._find_functions(module, mapped_ns)
        elif wanted and not self.is_closed:
            self._scanner.submit(self._scan, module, mapped_ns)

    def attach_somebodys(self, modules: Mapping[Module, int]) -> None:
        """Attaches in modules of any processes: here a file that the kernel refuses must not end the task.

        Files with known names come first, then small files.

        Args:
            modules: modules with the times at which they were mapped.
        """
        for module in sorted(modules, key=lambda one: (not self._is_library(one), one.elf.size)):
            try:
                self.attach(module, modules[module])
            except KernelError as error:
                self.say_refused(module.path, error)
            except GivenUp:
                self._leave_out(module, "the trace ended before they were found")

    def _is_library(self, module: Module) -> bool:
        return Path(module.path).name.startswith(self._libraries)

    def _scan(self, module: Module, mapped_ns: int) -> None:
        if self.is_closed:
            return
        try:
            self._find_functions(module, mapped_ns)
        except GivenUp:
            self._leave_out(module, "the trace ended before they were found")
        except Exception:
            log.exception("cannot read a file's code", extra={"file": module.path})

    def _find_functions(self, module: Module, mapped_ns: int) -> None:
        """Attaches to functions without a symbol."""
        found = self._resolver.find_functions(module) if self._resolver else {}
        with self._lock:
            if found:
                self._retries.attempt(f"attach to {module.path}", lambda: self._put(module, found, mapped_ns, True))

    def _put(self, module: Module, found: dict[str, int], mapped_ns: int, wanted: bool) -> None:
        uprobes = self._uprobes.get(module)
        if not uprobes or not module.file or self.is_closed:
            return  # no process maps the file any more
        if detaching := self._detaching.get(module.inode):
            detaching.result()  # otherwise a call would be recorded twice
        attached = uprobes.attach(module, found)
        if left_out := module.elf.left_out:
            self._leave_out(module, ", ".join(left_out.values()))
        if not attached and not wanted:
            del self._uprobes[module]
        if not attached:
            return
        before, self._functions[module] = self._functions.get(module, 0), attached
        late_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - mapped_ns if mapped_ns else 0
        log.info(
            "attached to functions of a file",
            extra={"file": module.path, "functions": attached, "late_ms": late_ns / 1e6},
        )
        if late_ns >= _LATE_NS:
            self.late_count += 1
            self.late.append(Late(module.path, attached, late_ns))
        if module in self._used:
            self.functions += attached - before

    def _leave_out(self, module: Module, reason: str) -> None:
        if len(self.left_out) < _MOST_TOLD:
            self.left_out[module.path] = reason

    def use(self, module: Module) -> None:
        """Notes that a watched process has mapped a module, or is about to."""
        if module not in self._used:
            self._used.add(module)
            self.functions += self._functions.get(module, 0)

    def say_refused(self, path: str, error: KernelError) -> None:
        """Counts and logs a file in which the kernel refused to attach."""
        self.refused += 1
        log.warning("cannot attach to functions of a file", extra={"file": path, "reason": str(error)})

    def drop(self, module: Module) -> None:
        """Detaches from a module that no process maps any more. If it is mapped again, it is attached again."""
        uprobes = self._uprobes.pop(module, None)
        if uprobes and not self.is_closed:
            self._detaching = {inode: one for inode, one in self._detaching.items() if not one.done()}
            self._detaching[module.inode] = self._detacher.submit(uprobes.close)
        self._looked_at.discard(module)
        self._functions.pop(module, None)
        self._used.discard(module)
        if self._resolver:
            self._resolver.drop_module(module)

    def detach(self, links: UprobeLinks) -> None:
        """Detaches links in the background."""
        self._detacher.submit(links.close)

    def close(self) -> None:
        """Detaches from all files. May be called again."""
        with self._lock:
            if not self.is_closed:
                self.is_closed = True
                for uprobes in self._uprobes.values():
                    self._detacher.submit(uprobes.close)
        self._scanner.shutdown(cancel_futures=True)
        self._detacher.shutdown()
