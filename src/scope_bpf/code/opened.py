"""From what a process has mapped to the module: each file is opened once, through a process that has it mapped."""

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
    """The modules of files by how the kernel tells them apart in mappings. For one thread.

    Attributes:
        unseen: files that were mapped by processes which had ended when they were looked at, and are nowhere else.
    """

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._known: dict[FileId, Module] = {}
        self._ids: dict[Module, FileId] = {}
        self.unseen = 0

    def open(self, pid: int, mapping: Mapping) -> Module | None:
        """The module that a process has mapped; None if it has no code that can be read, or cannot be reached any more.

        Raises:
            OSError: it cannot be opened now.
            KernelError: the kernel refused to say which file it is.
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
        if module not in self._ids:  # of overlays over one file only the first: others' numbers are used again
            self._known[mapping.file], self._ids[module] = module, mapping.file
        return module

    def kept(self) -> list[Module]:
        """Every module that is kept, whoever opened it."""
        return list(self._modules.by_inode.values())

    def drop(self, module: Module) -> None:
        """Lets go of a module that nobody maps any more."""
        if file := self._ids.pop(module, None):
            del self._known[file]
        self._modules.drop(module)


def _open_in(pid: int, mapping: Mapping) -> int:
    """The file by way of the process; -1: it does not have it any more."""
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
        os.close(fd)  # another took its place meanwhile
    return -1


def _is_mapped_still(pid: int, part: Mapping) -> bool:
    return any((now.start, now.file) == (part.start, part.file) for now in executable_mappings(pid))


def _parts(pid: int, mapping: Mapping) -> Iterator[Mapping]:
    """What was told, and then what else there is of the file: loaders map some whole, and other parts over the end."""
    yield mapping
    yield from (rest for rest in executable_mappings(pid) if rest.file == mapping.file)


def _is_file(fd: int, file: FileId) -> bool:
    """False also where mappings have another number than files, as in overlays."""
    found = os.fstat(fd)
    return (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino) == file


def _open_by_path(mapping: Mapping) -> int:
    """The file by the path that the process had for it, if that is it; -1: it is not."""
    with suppress(OSError, ValueError):
        fd = os.open(mapping.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if _is_file(fd, mapping.file):
            return fd
        os.close(fd)
    return -1
