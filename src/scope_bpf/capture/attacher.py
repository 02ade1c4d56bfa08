"""Finds the files whose code watched processes run, and keeps a probe's places attached in each of them."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.attachments import Attachments
from scope_bpf.capture.missed import Late, Missed
from scope_bpf.capture.retries import Retries
from scope_bpf.capture.uprobe import Places
from scope_bpf.capture.watched import Watched
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.resolver import Resolver
from scope_bpf.errors import NotElf
from scope_bpf.host import raise_limit_of_descriptors

log = logging.getLogger(__name__)

_LET_GO_EVERY_S = 1.0


class Attacher:
    """Attaches until `close`.

    `follow` is for one thread, which waits until one of `descriptors` is readable, but at most `due_s`. The other
    methods may be called from any thread, for example by the thread that resolves names. Until the first `follow`,
    everything is done at once; after that, slow work is done in other threads.

    Args:
        options: the probe's validated options.
        object_: the loaded object.
        places: the probe's places.
        target: the processes whose files are attached.
        grace_s: how long data about a file is kept after no process maps it any more.

    Raises:
        KernelError: the kernel does not support this way to attach.
        TargetNotFound: the target does not exist.
    """

    def __init__(
        self,
        probe: Probe,
        options: Mapping[str, Any],
        object_: BpfObject,
        places: Places,
        *,
        target: Target,
        grace_s: float,
    ) -> None:
        raise_limit_of_descriptors()
        self._places = places
        self._modules = Modules(object_)
        self._history = self._modules.history
        self._retries = Retries(self._modules.files.close_idle)
        self._lock = threading.RLock()
        self._is_closed = False
        self._next_letting_go = 0.0
        self.resolver: Resolver | None = None
        if probe.resolver:
            self.resolver = probe.resolver(object_, self._modules, options)
        self._attachments = Attachments(
            places, probe.libraries, self.resolver, self._retries, self._lock, ending=self._modules.ending
        )
        self._watched = Watched(self._modules, self._attachments, self._retries, grace_s)
        self._history.catch_up = self._catch_up
        try:
            self._attachments.detach(places.try_out())
            self.watch(target)
        except BaseException:
            self.close()
            raise

    def watch(self, target: Target) -> None:
        """Follows new mappings of a target; for existing mappings, call `look_at_processes`.

        Raises:
            KernelError: the kernel refused.
            TargetNotFound: the cgroup does not exist.
        """
        with self._lock:
            self._watched.watch(target)

    @property
    def ending(self) -> threading.Event:
        """To be set when the trace is to end: from then on, files are read for names only, and nothing is attached."""
        return self._modules.ending

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the attached programs."""
        return self._places.program_fds

    @property
    def functions(self) -> int:
        """Number of functions attached in files that watched processes have used."""
        return self._attachments.functions

    def left_out(self) -> list[str]:
        """For people: in which files functions may not have been found."""
        return [f"functions not looked for: {path}: {text}" for path, text in self._attachments.left_out.copy().items()]

    @property
    def late(self) -> list[Late]:
        """The latest files that were attached after a watched process had mapped them."""
        return list(self._attachments.late)

    @property
    def missed(self) -> Missed:
        """Counts of what could not be seen."""
        return Missed(
            unseen=self._watched.unseen,
            unopened=self._retries.given_up + self._modules.files.refused,
            refused=self._attachments.refused,
            retries=self._retries.repeated,
            lost=self._watched.lost,
            late=self._attachments.late_count,
        )

    def descriptors(self) -> Iterator[int]:
        """Descriptors that become readable when `follow` has work."""
        return self._watched.descriptors()

    def due_s(self) -> float:
        """Seconds until `follow` has work although no descriptor is readable; infinite: none is planned."""
        with self._lock:
            if self._watched.is_due:
                return 0.0
            has_some = len(self._history) or len(self._modules.by_inode) > len(self._attachments.pinned)
            letting_go = self._next_letting_go - time.monotonic() if has_some else math.inf
            return max(0.0, min(letting_go, self._retries.due_s()))

    def follow(self, watched: Callable[[], Collection[int]]) -> None:
        """Attaches in files mapped by watched processes since the last call; detaches from files no longer mapped.

        Args:
            watched: returns the processes that may belong to the target.
        """
        self._watched.pause()
        with self._lock:
            self._retries.waits = False
            self._watched.listed = watched
            self._watched.take_news()
            if self._watched.has_lost:
                self._watched.has_lost = False
                log.warning("the kernel lost news of mappings; looking at all processes")
                self._watched.look_at(watched())
            self._retries.run()
            if time.monotonic() >= self._next_letting_go:
                self._next_letting_go = time.monotonic() + _LET_GO_EVERY_S
                self._watched.let_go()

    def processes(self) -> list[int]:
        """The running watched processes whose files were looked at."""
        return [process.pid for process in self._history.processes()]

    def _catch_up(self, pid: int) -> None:
        """Takes the kernel's news so far, so that names can be resolved; looks at the process if it is new."""
        with self._lock:
            if self._is_closed:
                return
            self._watched.take_news()
            if not self._history.running(pid):
                self._watched.look_at([pid])

    def look_at_processes(self, pids: Iterable[int]) -> None:
        """Attaches in all files whose code these processes have mapped."""
        looked_at = list(pids)
        with self._lock:
            self._watched.look_at(looked_at)
            for process in map(self._history.running, looked_at):
                if self.resolver and process:
                    self.resolver.add_process(process)

    def look_at_installed(self, paths: Iterable[str]) -> None:
        """Attaches in files that processes may run later."""
        with self._lock:
            for module in self._opened_by_path(paths):
                self._attachments.attach_somebodys({module: 0})
                if module in self._attachments:
                    self._attachments.pinned.add(module)
                else:
                    self._watched.drop_unused([module])

    def look_at_files(self, paths: Iterable[str]) -> None:
        """Attaches in files that a command will run. All are kept: those without functions are not read again.

        Raises:
            KernelError: the kernel refused.
        """
        with self._lock:
            for module in self._opened_by_path(paths):
                self._attachments.attach(module)
                if module in self._attachments:
                    self._attachments.use(module)
                self._attachments.pinned.add(module)

    def _opened_by_path(self, paths: Iterable[str]) -> Iterator[Module]:
        for path in {str(Path(path).resolve()) for path in paths}:
            with suppress(OSError, NotElf):  # missing file: the command itself will report it
                yield self._modules.add(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), path)

    def detach(self) -> None:
        """Detaches from all files; data about the files is kept to resolve names. May be called again."""
        with self._lock:
            missed = self.missed
            if not self._attachments.is_closed and (missed.unopened or missed.refused or missed.lost):
                log.warning("some mapped files could not be attached to", extra=asdict(missed))
        self._attachments.close()

    def close(self) -> None:
        """Detaches and closes all files. May be called again."""
        self.detach()
        if self.resolver:
            self.resolver.close()
        with self._lock:
            self._is_closed = True
            self._watched.close()
            self._modules.close()
