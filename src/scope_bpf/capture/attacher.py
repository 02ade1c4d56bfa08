"""Finds the files that watched processes run, and attaches a probe's functions in each of them, once."""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

from scope_bpf.binding.mapping_watch import MappingWatch
from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.uprobe import Places, Uprobes
from scope_bpf.catalogue.probe import Probe
from scope_bpf.code.mappings import executable_mappings, open_mapped
from scope_bpf.code.modules import Identity, Module, Modules, identity
from scope_bpf.code.resolver import Resolver
from scope_bpf.errors import KernelError, NotElf

log = logging.getLogger(__name__)


class Attacher:
    """Attaches until `close`. For one thread; others may ask for `functions` and `resolver`.

    Args:
        object_: loaded.
        places: the probe's.

    Raises:
        KernelError: the kernel cannot attach this way at all.
    """

    def __init__(self, probe: Probe, object_: BpfObject, places: Places) -> None:
        places.try_out()
        self._places = places
        self._modules = Modules(object_)
        self._news = MappingWatch()
        self.resolver: Resolver | None = probe.resolver(object_, self._modules) if probe.resolver else None
        self._kept: set[Module] = set()  # with functions to attach to, or names
        # By when it was changed, too: inodes are used again. A module may be there more than once, for each overlay.
        self._looked_at: dict[tuple[Identity, int], Module | None] = {}
        self._attached: dict[Module, int] = {}  # functions
        self._uprobes: list[Uprobes] = []
        self._used: set[Module] = set()  # watched processes have mapped it, or are about to

    @property
    def functions(self) -> int:
        """To how many functions it has attached in files that watched processes use."""
        return sum(self._attached[module] for module in self._used)

    def descriptors(self) -> Iterator[int]:
        """What becomes readable when `follow` has something to do."""
        return self._news.descriptors()

    def follow(self, watched: Callable[[], Collection[int]]) -> None:
        """Attaches in what watched processes have mapped since the last call."""
        pids = self._news.processes()
        if pids is None:
            self.look_at_processes(watched())
        elif pids:
            self.look_at_processes(pids.intersection(watched()))

    def look_at_processes(self, pids: Iterable[int]) -> None:
        """Attaches in all that these processes run."""
        files = set()
        for pid in pids:
            found: dict[int, Module] = {}
            for mapping in executable_mappings(pid):
                try:
                    file = open_mapped(pid, mapping)
                except OSError:
                    continue  # gone meanwhile
                module = self._look_at_somebodys(file, mapping.path)
                files.add(mapping.file)
                if module:
                    self._used.add(module)
                if module and (address := module.elf.address_of(mapping.offset)) is not None:
                    found.setdefault(mapping.start - address, module)
            if found and self.resolver:
                self._modules.add_process(pid)  # the rest of it, too: its functions are in the stacks
                self.resolver.add_process(pid, found)
        self._news.know(files)

    def look_at_installed(self, paths: Iterable[str]) -> None:
        """Attaches in files that processes may run later."""
        for path in {str(Path(path).resolve()) for path in paths}:
            with suppress(OSError):
                self._look_at_somebodys(FileIO(path), path)

    def look_at_files(self, paths: Iterable[str]) -> None:
        """Attaches in files that will be run by one process.

        Raises:
            KernelError: the kernel refused.
        """
        real = [str(Path(path).resolve()) for path in paths]
        found = False
        for path in real:
            try:
                file = FileIO(path)
            except OSError:
                continue  # it is not there, as what is run by it will find
            if module := self._look_at(file, path):
                self._used.add(module)
                found = True
        for path in real if found and self.resolver else ():
            with suppress(OSError):
                self._modules.add_for_stacks(FileIO(path), path)

    def _look_at_somebodys(self, file: FileIO, path: str) -> Module | None:
        """The same of a file that anybody may have made: that the kernel refuses it must not end the task."""
        try:
            return self._look_at(file, path)
        except KernelError as error:
            log.warning("cannot attach to functions of a file", extra={"file": path, "reason": str(error)})
            return None

    def _look_at(self, file: FileIO, path: str) -> Module | None:
        """Attaches in a file, unless that was done; gives the module if it is of interest."""
        named = identity(file), os.fstat(file.fileno()).st_ctime_ns
        if named in self._looked_at:
            file.close()
            return self._looked_at[named]
        self._looked_at[named] = None
        try:
            module = self._modules.add(file, path)
        except NotElf:
            return None
        if module not in self._kept and not self._attach(module):
            self._modules.drop(module)
            return None
        self._kept.add(module)
        self._looked_at[named] = module
        return module

    def _attach(self, module: Module) -> bool:
        """Attaches in a file; whether it is of interest."""
        wanted = self.resolver.add_module(module) if self.resolver else False
        found = self.resolver.find_functions(module) if self.resolver and wanted else {}
        uprobes = Uprobes(self._places)
        attached = uprobes.attach(f"/proc/self/fd/{module.file.fileno()}", module.elf, found)
        self._attached[module] = attached
        if attached:
            self._uprobes.append(uprobes)
            log.info("attached to functions of a file", extra={"file": module.path, "functions": attached})
        return bool(attached or wanted)

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs that are attached."""
        return self._places.program_fds

    def detach(self) -> None:
        """Detaches from every file; what is known of the files is kept for what was recorded. May be called again."""
        while self._uprobes:
            self._uprobes.pop().close()

    def close(self) -> None:
        """Detaches and lets go of every file. May be called again."""
        self.detach()
        self._news.close()
        if self.resolver:
            self.resolver.close()
        self._modules.close()
