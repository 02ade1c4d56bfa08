"""Finds the files that watched processes run, and attaches a probe's functions in each of them, once."""

import logging
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

from scope_bpf.catalogue import Probe, Resolver
from scope_bpf.errors import NotElf
from scope_bpf.mappings import executable_mappings, open_mapped
from scope_bpf.modules import Module, Modules
from scope_bpf.object import BpfObject
from scope_bpf.uprobe import Uprobes

log = logging.getLogger(__name__)


class Attacher:
    """Attaches until `close`. For the thread that polls.

    Args:
        object_: loaded.

    Raises:
        KernelError: the kernel cannot attach this way at all.
    """

    def __init__(self, probe: Probe, object_: BpfObject, multi: bool) -> None:
        names = {name for function in probe.functions for name in (function.entry, function.leave)}
        self._uprobes = Uprobes(probe.functions, {name: object_.program(name) for name in names}, multi)
        self._uprobes.try_out()
        self._modules = Modules(object_)
        self.resolver: Resolver | None = probe.resolver(object_) if probe.resolver else None
        self.functions = 0  # attached, in all files

    def look_at_processes(self, pids: Iterable[int]) -> None:
        """Attaches in all that these processes run.

        Raises:
            KernelError: the kernel refused to attach in a file.
        """
        for pid in pids:
            found: dict[int, Module] = {}
            for mapping in executable_mappings(pid):
                try:
                    file = open_mapped(pid, mapping)
                except OSError:
                    continue  # gone meanwhile, or a device
                module = self._look_at(file, mapping.path)
                if module and (address := module.elf.address_of(mapping.offset)) is not None:
                    found.setdefault(mapping.start - address, module)
            if found and self.resolver:
                self.resolver.add_process(pid, found)

    def look_at_file(self, path: str) -> None:
        """Attaches in a file that will be run.

        Raises:
            OSError: it cannot be read.
            KernelError: the kernel refused.
        """
        self._look_at(FileIO(path), str(Path(path).resolve()))

    def _look_at(self, file: FileIO, path: str) -> Module | None:
        if self._modules.known(file):
            module = self._modules.get(file)
            file.close()
            return module
        try:
            module = self._modules.add(file, path)
        except NotElf:
            file.close()
            return None
        attached = self._uprobes.attach(f"/proc/self/fd/{file.fileno()}", module.elf)
        self.functions += attached
        wanted = self.resolver.add_module(module) if self.resolver else False
        if attached:
            log.info("attached to functions of a file", extra={"file": path, "functions": attached})
        if not attached and not wanted:
            self._modules.drop(module)
            return None
        return module

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs that are attached."""
        return self._uprobes.program_fds

    def detach(self) -> None:
        """Detaches from every file; what is known of the files is kept for what was recorded. May be called again."""
        self._uprobes.close()

    def close(self) -> None:
        """Detaches and lets go of every file. May be called again."""
        self._uprobes.close()
        self._modules.close()
