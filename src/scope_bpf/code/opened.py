"""Finds the module of a mapping. Each file is opened once, through a process that has it mapped."""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import suppress

from scope_bpf.binding.mapping_watch import FileId
from scope_bpf.code.mappings import Mapping, executable_mappings, open_mapped
from scope_bpf.code.modules import Module, Modules
from scope_bpf.errors import NotElf

log = logging.getLogger(__name__)

_GONE = frozenset({errno.ENOENT, errno.ESRCH})


class OpenedFiles:
    """The modules by the kernel's file id in mappings. For one thread.

    Attributes:
        unseen: mapped files that could not be opened, because their process had ended and the path did not lead to
            them.
    """

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._known: dict[FileId, Module] = {}
        self._ids: dict[Module, FileId] = {}
        self.unseen = 0

    def open(self, pid: int, mapping: Mapping) -> Module | None:
        """The module of a mapping; None if the file has no readable code or cannot be reached any more.

        Raises:
            OSError: the file cannot be opened now.
            KernelError: the kernel could not identify the file.
        """
        if module := self._known.get(mapping.file):
            return module
        fd = _open_in(pid, mapping)
        if fd < 0:
            fd = _open_by_path(mapping)
        if fd < 0:
            self.unseen += 1
            log.info("a file was mapped by a process that has ended", extra={"pid": pid, "file": mapping.path})
            return None
        try:
            module = self._modules.add(fd, mapping.path)
        except NotElf:
            return None
        if (
            module not in self._ids
        ):  # only the first of several overlays of a file, since numbers of overlays are reused
            self._known[mapping.file], self._ids[module] = module, mapping.file
        return module

    def kept(self) -> list[Module]:
        """All kept modules."""
        return list(self._modules.by_inode.values())

    def drop(self, module: Module) -> None:
        """Releases a module that no process maps any more."""
        if file := self._ids.pop(module, None):
            del self._known[file]
        self._modules.drop(module)


def _open_in(pid: int, mapping: Mapping) -> int:
    """A descriptor of the file, through the process's mapping; -1: it no longer maps the file."""
    for part in _parts(pid, mapping):
        try:
            fd = open_mapped(pid, part)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            continue
        try:
            if _is_file(fd, mapping.file) or _is_mapped_still(pid, part):
                return fd
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # another file was mapped there meanwhile
    return -1


def _is_mapped_still(pid: int, part: Mapping) -> bool:
    return any((now.start, now.file) == (part.start, part.file) for now in executable_mappings(pid))


def _parts(pid: int, mapping: Mapping) -> Iterator[Mapping]:
    """The mapping from the news, then other mappings of the file: loaders may map a whole file, then parts over it."""
    yield mapping
    yield from (rest for rest in executable_mappings(pid) if rest.file == mapping.file)


def _is_file(fd: int, file: FileId) -> bool:
    """Whether a descriptor is this file. False also in overlays, where mappings and files have different numbers."""
    found = os.fstat(fd)
    return (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino) == file


def _open_by_path(mapping: Mapping) -> int:
    """A descriptor of the file by the path in the mapping; -1: the path leads to another file."""
    with suppress(OSError, ValueError):
        fd = os.open(mapping.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if _is_file(fd, mapping.file):
            return fd
        os.close(fd)
    return -1
