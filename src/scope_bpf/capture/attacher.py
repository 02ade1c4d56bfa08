"""Finds the files that watched processes run, and has the probe attached in each of them while they do."""

import dataclasses
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from scope_bpf.binding.mapping_watch import FileId, Kind, MappingWatch, News
from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.attachments import Attachments, Late
from scope_bpf.capture.followed import Followed
from scope_bpf.capture.retries import Retries
from scope_bpf.capture.uprobe import Uprobes
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.code import mappings
from scope_bpf.code.history import Mapped
from scope_bpf.code.mappings import executable_mappings, file_of, mapping_of, running_processes
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.opened import OpenedFiles
from scope_bpf.code.proc import members_of
from scope_bpf.code.resolver import Resolver
from scope_bpf.errors import KernelError, NotElf
from scope_bpf.host import raise_limit_of_descriptors

log = logging.getLogger(__name__)

_LET_GO_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True)
class Missed:
    """What could not be seen, since the start.

    Attributes:
        unseen: files that were mapped by processes which had ended before anybody could look at them.
        unopened: files that could not be opened or attached to for want of descriptors or memory, after several tries.
        refused: files in which the kernel did not let the probe attach.
        retries: how often something that failed for the moment was tried again.
        lost: how often the kernel could not tell what was mapped; all processes were looked at then.
    """

    unseen: int = 0
    unopened: int = 0
    refused: int = 0
    retries: int = 0
    lost: int = 0


class Attacher:
    """Attaches until `close`.

    `follow` is for one thread, which waits until one of `descriptors` can be read, and not longer than `due_s`. The
    other methods may be called from any thread: whoever names what was recorded does so from another one. Until the
    first `follow` all is done at once; from then on what takes long is done in a thread of its own.

    Args:
        object_: loaded.

    Raises:
        KernelError: the kernel cannot attach this way at all.
    """

    def __init__(self, probe: Probe, object_: BpfObject, multi: bool, target: Target | None = None) -> None:
        raise_limit_of_descriptors()
        names = {name for function in probe.functions for name in (function.entry, function.leave)}
        programs = {name: object_.program(name) for name in names}
        trial = Uprobes(probe.functions, programs, multi)
        trial.try_out()
        self.program_fds = trial.program_fds
        self._modules = Modules(object_)
        self._history = self._modules.history
        self._history.catch_up = self._catch_up
        self._opened = OpenedFiles(self._modules)
        self._retries = Retries()
        self._scanner = ThreadPoolExecutor(1, "scope-scan")
        self._lock = threading.RLock()
        self._is_following = False
        self._pinned: set[Module] = set()  # processes may run them later
        self._lost, self._has_lost = 0, False
        self._is_closed = False
        self._watched: Callable[[], Collection[int]] = running_processes
        self._next_letting_go = 0.0
        self._read_ns = 0  # what was mapped until then was told
        self.resolver: Resolver | None = probe.resolver(object_, self._modules) if probe.resolver else None
        self._attachments = Attachments(
            lambda: Uprobes(probe.functions, programs, multi),
            probe.libraries,
            self.resolver,
            retries=self._retries,
            scan=self._scan,
            lock=self._lock,
        )
        self._news = MappingWatch()
        self._followed = Followed(self._history, self._news)
        try:
            self.watch(target or Target())
        except BaseException:
            self._news.close()
            raise

    def watch(self, target: Target) -> None:
        """Follows what a target maps from now on; for what it has mapped already there is `look_at_processes`.

        Raises:
            KernelError: the kernel refused.
            TargetNotFound: there is no such cgroup.
        """
        with self._lock:
            self._cgroup, self._pid = target.cgroup_path(), target.pid
            if target.pid:
                self._news.watch_processes([target.pid])
            elif self._cgroup:
                self._news.watch_cgroup(self._cgroup)
            else:
                self._news.watch_all()

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
            unseen=self._opened.unseen,
            unopened=self._retries.given_up + self._modules.files.refused,
            refused=self._attachments.refused,
            retries=self._retries.repeated,
            lost=self._lost,
        )

    def descriptors(self) -> Iterator[int]:
        """What becomes readable when `follow` has something to do."""
        return self._news.descriptors()

    def due_s(self) -> float:
        """In how many seconds `follow` has something to do though nothing can be read; infinite: it has not."""
        with self._lock:
            if self._has_lost:
                return 0.0
            has_some = len(self._history) or len(self._modules.by_inode) > len(self._pinned)
            letting_go = self._next_letting_go - time.monotonic() if has_some else math.inf
            return max(0.0, min(letting_go, self._retries.due_s()))

    def follow(self, watched: Callable[[], Collection[int]]) -> None:
        """Attaches in what watched processes have mapped since the last call; lets go of what nobody maps any more."""
        self._news.pause()
        with self._lock:
            self._is_following, self._retries.waits = True, False
            self._watched = watched
            self._take_news()
            if self._has_lost:
                self._has_lost = False
                log.warning("the kernel did not tell all that was mapped: all processes are looked at")
                self.look_at_processes(watched())
            self._retries.run()
            if time.monotonic() >= self._next_letting_go:
                self._next_letting_go = time.monotonic() + _LET_GO_EVERY_S
                self._let_go()

    def _catch_up(self, pid: int) -> None:
        """Takes what the kernel has told so far, for who names what a process ran; looks at it if it is new."""
        with self._lock:
            if self._is_closed:
                return
            self._take_news()
            if not self._history.running(pid):
                self._look_at({pid: executable_mappings(pid)})

    # Of these the caller has the lock.

    def _take_news(self) -> None:
        before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        news = self._news.read()
        if news is None:
            self._has_lost = True
            self._lost += 1
        elif len(news):
            self._note_news(news)
        self._read_ns = before_ns

    def _note_news(self, news: News) -> None:
        """Whatever was mapped is attached to first; then it is noted who has it, and who ended."""
        opened: dict[FileId, Module | None] = {}
        mapped_ns: dict[Module, int] = {}
        others = self._others_among(news)
        for one in news:
            pid, mapping = int(one["pid"]), mapping_of(one)
            if one["kind"] != Kind.MAPPED or not one["file"]["inode"] or opened.get(mapping.file) or pid in others:
                continue
            module = opened[mapping.file] = self._open(pid, mapping)
            if module:
                mapped_ns.setdefault(module, int(one["time_ns"]))
        new = [module for module in mapped_ns if module not in self._attachments]
        self._attachments.attach_somebodys(mapped_ns)
        for one in news:
            if one["kind"] == Kind.FORKED:
                self._followed.fork(int(one["parent"]), int(one["pid"]), int(one["time_ns"]))
            elif one["kind"] == Kind.ENDED:
                self._note_end(int(one["pid"]))
            elif int(one["pid"]) not in others:
                self._note_mapping(one, opened.get(file_of(one)), new)
            else:
                self._news.know(one)
        self._drop_unused(mapped_ns)

    def _others_among(self, news: News) -> set[int]:
        """Processes that are told of though they are not the target's: where it is watched by way of the machine."""
        if not self._news.is_whole or not self._pid:
            return set()
        forked = set(news["pid"][news["kind"] == Kind.FORKED].tolist())
        others = set(news["pid"].tolist()) - forked - set(self._watched())
        return {pid for pid in others if not self._history.running(pid)}

    def _note_end(self, pid: int) -> None:
        if self._followed.end(pid):
            return
        found = executable_mappings(pid)
        if found and self._pid:  # it became a program with other rights, at which the kernel stops telling
            self._news.watch_also([pid])
        self._look_at({pid: found})

    def _note_mapping(self, one: Any, module: Module | None, new: Collection[Module]) -> None:
        """A process that was not known is followed if it uses what is attached, or if only a target's is told."""
        pid, mapping, since_ns = int(one["pid"]), mapping_of(one), int(one["time_ns"])
        process = self._history.running(pid)
        if not process:
            if self._news.is_whole and module not in self._attachments:
                if module:
                    self._news.know(one)
                return
            process = self._followed.begin(pid, since_ns)
            self._look_at({pid: executable_mappings(pid)})
        self._history.add(process, Mapped(since_ns, mapping.start, mapping.end, mapping.offset, module))
        if module and module in self._attachments:
            self._attachments.use(module)
            base = module.elf.address_of(mapping.offset)
            if module in new and base is not None:
                self._read_process(pid, {mapping.start - base: module})
        if self._history.is_to_be_looked_at(process):
            self._look_at({pid: executable_mappings(pid)})

    def look_at_processes(self, pids: Iterable[int]) -> None:
        """Attaches in all that these processes run."""
        with self._lock:
            self._look_at({pid: executable_mappings(pid) for pid in pids})

    def _look_at(self, maps: Mapping[int, list[mappings.Mapping]]) -> None:
        opened: dict[FileId, Module | None] = {}
        for pid, found in maps.items():
            for mapping in found:
                if not opened.get(mapping.file):
                    opened[mapping.file] = self._open(pid, mapping)
        modules = dict.fromkeys(module for module in opened.values() if module)
        new = {module for module in modules if module not in self._attachments}
        self._attachments.attach_somebodys(dict.fromkeys(modules, 0))
        members = members_of(self._cgroup) if self._cgroup else set()
        for pid, found in maps.items():
            uses = any(opened[mapping.file] in self._attachments for mapping in found)
            all_of_it = not self._news.is_whole and (not self._cgroup or pid in members)
            if found and (uses or all_of_it or self._history.running(pid)):
                self._note_process(pid, found, opened, new)
        self._drop_unused(modules)

    def _note_process(
        self,
        pid: int,
        found: list[mappings.Mapping],
        opened: Mapping[FileId, Module | None],
        new: Collection[Module],
    ) -> None:
        """Notes all that a process has mapped."""
        process, since_ns = self._history.running(pid), self._read_ns
        if not process:
            process, since_ns = self._followed.begin(pid, time.clock_gettime_ns(time.CLOCK_BOOTTIME)), 0
            if self._pid and pid != self._pid:
                self._news.watch_also([pid])
        there = {(one.start, one.offset, one.module) for one in process.mapped}
        bases: dict[int, Module] = {}
        for mapping in found:
            module = opened[mapping.file]
            if (mapping.start, mapping.offset, module) not in there:
                self._history.add(process, Mapped(since_ns, mapping.start, mapping.end, mapping.offset, module))
            if module and module in self._attachments:
                self._attachments.use(module)
                if (base := module.elf.address_of(mapping.offset)) is not None and (module in new or not since_ns):
                    bases.setdefault(mapping.start - base, module)
        self._history.prune(process, {mapping.start - mapping.offset for mapping in found})
        if bases:
            self._read_process(pid, bases)

    def _read_process(self, pid: int, bases: Mapping[int, Module]) -> None:
        """Has it read which handles a process had got before its files were attached to."""
        if self.resolver:
            resolver = self.resolver
            self._scan(lambda: resolver.add_process(pid, bases))

    def _scan(self, action: Callable[[], None]) -> None:
        if not self._is_following:
            action()
        elif not self._attachments.is_closed:
            self._scanner.submit(self._scanned, action)

    def _scanned(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            log.exception("cannot read a file's code")

    def _open(self, pid: int, mapping: mappings.Mapping) -> Module | None:
        """The file that a process has mapped; later, if it cannot be opened now."""

        found: list[Module | None] = []
        is_late = False

        def open_it() -> None:
            module = self._opened.open(pid, mapping)
            if is_late and module:
                self._look_at({pid: executable_mappings(pid)})
            found.append(module)

        try:
            self._retries.attempt(f"open {mapping.path}", open_it)
        except KernelError as error:
            self._attachments.say_refused(mapping.path, error)
        except OSError as error:
            log.info("cannot open a file", extra={"file": mapping.path, "reason": str(error)})
        is_late = True
        return found[0] if found else None

    def look_at_installed(self, paths: Iterable[str]) -> None:
        """Attaches in files that processes may run later."""
        with self._lock:
            for module in self._opened_by_path(paths):
                self._attachments.attach_somebodys({module: 0})
                self._pin(module)

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
                self._pin(module)

    def _opened_by_path(self, paths: Iterable[str]) -> Iterator[Module]:
        for path in {str(Path(path).resolve()) for path in paths}:
            with suppress(OSError, NotElf):  # it is not there, as who runs it will find
                yield self._modules.add(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)

    def _pin(self, module: Module) -> None:
        if module in self._attachments:
            self._pinned.add(module)
        else:
            self._drop_unused([module])

    def _let_go(self) -> None:
        """Lets go of what no process maps that runs or has ended a little while ago."""
        self._followed.let_go()
        for module in list(self._attachments.modules):
            if module not in self._pinned and not self._history.is_used(module):
                self._attachments.detach(module)
        self._drop_unused(list(self._modules.by_inode.values()))

    def _drop_unused(self, modules: Iterable[Module]) -> None:
        for module in modules:
            if not self._history.is_known(module) and module not in self._pinned and module not in self._attachments:
                self._attachments.detach(module)
                self._opened.forget(module)
                if self.resolver:
                    self.resolver.forget_module(module)
                self._modules.drop(module)

    def detach(self) -> None:
        """Detaches from every file; what is known of the files is kept for what was recorded. May be called again."""
        with self._lock:
            if not self._attachments.is_closed and any(dataclasses.astuple(self.missed)):
                log.warning("not all that was mapped could be looked at", extra=dataclasses.asdict(self.missed))
            self._attachments.close()
        self._scanner.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Detaches and lets go of every file. May be called again."""
        self.detach()
        with self._lock:
            self._is_closed = True
            self._news.close()
            self._modules.close()
