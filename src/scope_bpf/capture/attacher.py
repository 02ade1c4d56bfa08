"""Finds the files that watched processes run, and has a probe's places attached to in each of them while they do."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

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

    `follow` is for one thread, which waits until one of `descriptors` can be read, and not longer than `due_s`. The
    other methods may be called from any thread: whoever names what was recorded does so from another one. Until the
    first `follow` all is done at once; from then on what takes long is done in a thread of its own.

    Args:
        object_: loaded.
        places: the probe's.
        target: whose files.
        grace_s: how long what is known of a file is kept when nobody maps it any more.

    Raises:
        KernelError: the kernel cannot attach this way at all.
        TargetNotFound: the target does not exist.
    """

    def __init__(self, probe: Probe, object_: BpfObject, places: Places, target: Target, grace_s: float) -> None:
        raise_limit_of_descriptors()
        self._places = places
        self._modules = Modules(object_)
        self._history = self._modules.history
        self._retries = Retries(self._modules.files.close_idle)
        self._lock = threading.RLock()
        self._is_closed = False
        self._next_letting_go = 0.0
        self.resolver: Resolver | None = probe.resolver(object_, self._modules) if probe.resolver else None
        self._attachments = Attachments(places, probe.libraries, self.resolver, self._retries, self._lock)
        self._watched = Watched(self._modules, self._attachments, self._retries, grace_s)
        self._history.catch_up = self._catch_up
        try:
            self._attachments.detach(places.try_out())
            self.watch(target)
        except BaseException:
            self.close()
            raise

    def watch(self, target: Target) -> None:
        """Follows what a target maps from now on; for what it has mapped already there is `look_at_processes`.

        Raises:
            KernelError: the kernel refused.
            TargetNotFound: there is no such cgroup.
        """
        with self._lock:
            self._watched.watch(target)

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs that are attached."""
        return self._places.program_fds

    @property
    def functions(self) -> int:
        """To how many functions it has attached, in files that watched processes have used."""
        return self._attachments.functions

    @property
    def late(self) -> list[Late]:
        """The last files that were attached to after a watched process had mapped them."""
        return list(self._attachments.late)

    @property
    def missed(self) -> Missed:
        """What could not be seen."""
        return Missed(
            unseen=self._watched.unseen,
            unopened=self._retries.given_up + self._modules.files.refused,
            refused=self._attachments.refused,
            retries=self._retries.repeated,
            lost=self._watched.lost,
            late=self._attachments.late_count,
        )

    def descriptors(self) -> Iterator[int]:
        """What becomes readable when `follow` has something to do."""
        return self._watched.descriptors()

    def due_s(self) -> float:
        """In how many seconds `follow` has something to do though nothing can be read; infinite: it has not."""
        with self._lock:
            if self._watched.is_due:
                return 0.0
            has_some = len(self._history) or len(self._modules.by_inode) > len(self._attachments.pinned)
            letting_go = self._next_letting_go - time.monotonic() if has_some else math.inf
            return max(0.0, min(letting_go, self._retries.due_s()))

    def follow(self, watched: Callable[[], Collection[int]]) -> None:
        """Attaches in what watched processes have mapped since the last call; lets go of what nobody maps any more.

        Args:
            watched: lists the processes that the target may be about.
        """
        self._watched.pause()
        with self._lock:
            self._retries.waits = False
            self._watched.listed = watched
            self._watched.take_news()
            if self._watched.has_lost:
                self._watched.has_lost = False
                log.warning("the kernel did not tell all that was mapped: all processes are looked at")
                self._watched.look_at(watched())
            self._retries.run()
            if time.monotonic() >= self._next_letting_go:
                self._next_letting_go = time.monotonic() + _LET_GO_EVERY_S
                self._watched.let_go()

    def _catch_up(self, pid: int) -> None:
        """Takes what the kernel has told so far, for who names what a process ran; looks at it if it is new."""
        with self._lock:
            if self._is_closed:
                return
            self._watched.take_news()
            if not self._history.running(pid):
                self._watched.look_at([pid])

    def look_at_processes(self, pids: Iterable[int]) -> None:
        """Attaches in all that these processes run."""
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
                self._keep(module)

    def look_at_files(self, paths: Iterable[str]) -> None:
        """Attaches in files that will be run by one process.

        Raises:
            KernelError: the kernel refused.
        """
        with self._lock:
            for module in self._opened_by_path(paths):
                self._attachments.attach(module)
                if module in self._attachments:
                    self._attachments.use(module)
                self._keep(module)

    def _opened_by_path(self, paths: Iterable[str]) -> Iterator[Module]:
        for path in {str(Path(path).resolve()) for path in paths}:
            with suppress(OSError, NotElf):  # it is not there, as who runs it will find
                yield self._modules.add(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)

    def _keep(self, module: Module) -> None:
        if module in self._attachments:
            self._attachments.pinned.add(module)
        else:
            self._watched.drop_unused([module])

    def detach(self) -> None:
        """Detaches from every file; what is known of the files is kept for what was recorded. May be called again."""
        with self._lock:
            missed = self.missed
            if not self._attachments.is_closed and (missed.unopened or missed.refused or missed.lost):
                log.warning("not all that was mapped could be looked at", extra=asdict(missed))
        self._attachments.close()

    def close(self) -> None:
        """Detaches and lets go of every file. May be called again."""
        self.detach()
        if self.resolver:
            self.resolver.close()
        with self._lock:
            self._is_closed = True
            self._watched.close()
            self._modules.close()
