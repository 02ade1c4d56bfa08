"""Mappings of watched processes: from the kernel's news or /proc. Attaches in the files, and writes the history."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scope_bpf.binding.mapping_watch import FileId, Kind, MappingWatch, News
from scope_bpf.capture.attachments import Attachments
from scope_bpf.capture.followed import Followed
from scope_bpf.capture.retries import Retries
from scope_bpf.catalogue.target import Target
from scope_bpf.code import mappings
from scope_bpf.code.history import Mapped
from scope_bpf.code.mappings import VDSO, executable_mappings, file_of, mapping_of, running_processes
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.opened import OpenedFiles
from scope_bpf.code.proc import members_of
from scope_bpf.code.vdso import vdso_at
from scope_bpf.errors import KernelError

log = logging.getLogger(__name__)


class Watched:
    """The files that a target's processes have mapped. For one thread at a time.

    Args:
        grace_s: how long mappings are kept after the process has ended or unmapped the file.

    Attributes:
        listed: returns the processes that may belong to the target.
        has_lost: the kernel lost news of mappings, so all processes must be looked at.

    Raises:
        KernelError: the kernel cannot report mappings.
    """

    def __init__(self, modules: Modules, attachments: Attachments, retries: Retries, grace_s: float) -> None:
        self._history, self._attachments, self._retries = modules.history, attachments, retries
        self._grace_s = grace_s
        self._opened = OpenedFiles(modules)
        self._news = MappingWatch()
        self._followed = Followed(self._history, self._news, grace_s)
        self._cgroup: Path | None = None
        self._pid = 0
        self.listed: Callable[[], Collection[int]] = running_processes
        self.has_lost = False

    def watch(self, target: Target) -> None:
        """Follows new mappings of a target; for existing mappings, call `look_at`.

        Raises:
            KernelError: the kernel refused.
            TargetNotFound: the cgroup does not exist.
        """
        self._cgroup, self._pid = target.cgroup_folder(), target.pid
        if target.pid:
            self._news.watch_processes([target.pid])
        elif self._cgroup:
            self._news.watch_cgroup(self._cgroup)
        else:
            self._news.watch_all()

    @property
    def unseen(self) -> int:
        """Number of mapped files whose process ended before the file could be opened."""
        return self._opened.unseen

    @property
    def lost(self) -> int:
        """How often the kernel lost news of mappings."""
        return self._news.lost

    def descriptors(self) -> Iterator[int]:
        """Descriptors that become readable when there is news."""
        return self._news.descriptors()

    @property
    def is_due(self) -> bool:
        """Whether there is work although no descriptor is readable."""
        return self.has_lost or self._news.has_more

    def pause(self) -> None:
        """Waits a little if news was taken just now, so that many mappings are handled together."""
        self._news.pause()

    def take_news(self) -> None:
        """Handles the news since the last call: attaches in mapped files; notes mappings, forks and ends."""
        lost, news = self.lost, self._news.read()
        self.has_lost |= self.lost > lost
        if len(news):
            self._note_news(news)
        self._history.listener.told()
        self._history.told_ns = self._news.told_ns

    def _note_news(self, news: News) -> None:
        """Attaches in mapped files before anything else."""
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
        self._attachments.attach_somebodys(mapped_ns)
        for one in news:
            if one["kind"] == Kind.FORKED:
                self._followed.fork(int(one["parent"]), int(one["pid"]), int(one["time_ns"]))
            elif one["kind"] == Kind.ENDED:
                self._note_end(int(one["pid"]))
            elif int(one["pid"]) not in others:
                self._note_mapping(one, opened.get(file_of(one)))
            else:
                self._news.know(one)
        self.drop_unused(mapped_ns)

    def _others_among(self, news: News) -> set[int]:
        """Processes in the news that are not the target's, since the whole machine is watched."""
        if not self._news.is_whole or not self._pid:
            return set()
        forked = set(news["pid"][news["kind"] == Kind.FORKED].tolist())
        others = set(news["pid"].tolist()) - forked - set(self.listed())
        return {pid for pid in others if not self._history.running(pid)}

    def _note_end(self, pid: int) -> None:
        if self._followed.end(pid):
            return
        if self._pid:  # it executed a program with other privileges, after which the kernel reports no more news
            self._news.watch_also([pid])
        self.look_at([pid])

    def _note_mapping(self, one: Any, module: Module | None) -> None:
        """An unknown process is followed if the file is attached, or if only the target's news is reported."""
        pid, mapping, since_ns = int(one["pid"]), mapping_of(one), int(one["time_ns"])
        process = self._history.running(pid)
        if not process:
            if self._news.is_whole and module not in self._attachments:
                if module:
                    self._news.know(one)
                return
            process = self._followed.begin(pid, since_ns)
            self.look_at([pid])
        code = module or vdso_at(mapping)
        self._history.add(process, Mapped(since_ns, mapping.start, mapping.end, mapping.offset, code))
        if module and module in self._attachments:
            self._attachments.use(module)
        if self._history.is_to_be_looked_at(process):
            self.look_at([pid])

    def look_at(self, pids: Iterable[int]) -> None:
        """Attaches in all files that these processes have mapped, and notes the mappings."""
        maps = {}
        for pid in pids:
            try:
                maps[pid] = executable_mappings(pid)
            except OSError:
                self._attempt(f"look at process {pid}", partial(self._look_at_one, pid))
        self._look_at(maps)

    def _look_at_one(self, pid: int) -> None:
        self._look_at({pid: executable_mappings(pid)})

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        try:
            self._retries.attempt(what, action)
        except KernelError:
            raise
        except OSError as error:
            log.info("failed", extra={"what": what, "reason": str(error)})

    def _look_at(self, maps: Mapping[int, list[mappings.Mapping]]) -> None:
        opened: dict[FileId, Module | None] = {}
        for pid, found in maps.items():
            for mapping in found:
                if mapping.path != VDSO and not opened.get(mapping.file):
                    opened[mapping.file] = self._open(pid, mapping)
        modules = dict.fromkeys(module for module in opened.values() if module)
        self._attachments.attach_somebodys(dict.fromkeys(modules, 0))
        members = members_of(self._cgroup) if self._cgroup else set()
        for pid, found in maps.items():
            uses = any(opened.get(mapping.file) in self._attachments for mapping in found)
            all_of_it = not self._news.is_whole and (not self._cgroup or pid in members)
            if found and (uses or all_of_it or self._history.running(pid)):
                self._note_process(pid, found, opened)
        self._history.listener.told()
        self.drop_unused(modules)

    def _note_process(self, pid: int, found: list[mappings.Mapping], opened: Mapping[FileId, Module | None]) -> None:
        process, since_ns = self._history.running(pid), self._history.told_ns
        if not process:
            process, since_ns = self._followed.begin(pid, time.clock_gettime_ns(time.CLOCK_BOOTTIME)), 0
            if self._pid and pid != self._pid:
                self._news.watch_also([pid])
        there = {(one.start, one.offset, one.module) for one in process.mapped}
        for mapping in found:
            module = vdso_at(mapping) or opened.get(mapping.file)
            if (mapping.start, mapping.offset, module) not in there:
                self._history.add(process, Mapped(since_ns, mapping.start, mapping.end, mapping.offset, module))
            if module and module in self._attachments:
                self._attachments.use(module)
        self._history.prune(process, {mapping.start - mapping.offset for mapping in found}, self._grace_s)

    def _open(self, pid: int, mapping: mappings.Mapping) -> Module | None:
        """The module of a mapped file. If it cannot be opened now, this is retried later."""
        found: list[Module | None] = []
        is_late = False

        def open_it() -> None:
            module = self._opened.open(pid, mapping)
            if is_late and module:
                self.look_at([pid])
                self._opened.unseen += self._history.running(pid) is None and not executable_mappings(pid)
            found.append(module)

        try:
            self._attempt(f"open {mapping.path}", open_it)
        except KernelError as error:
            self._attachments.say_refused(mapping.path, error)
        is_late = True
        return found[0] if found else None

    def let_go(self) -> None:
        """Drops modules that no process has mapped, ignoring processes that ended more than `grace_s` ago."""
        self._followed.let_go()
        self.drop_unused(self._opened.kept())

    def drop_unused(self, modules: Iterable[Module]) -> None:
        """Drops the modules that no process has mapped or is expected to map."""
        for module in modules:
            if not self._history.is_used(module) and module not in self._attachments.pinned:
                self._attachments.drop(module)
                self._opened.drop(module)

    def close(self) -> None:
        """Stops the kernel's news. May be called again."""
        self._news.close()
