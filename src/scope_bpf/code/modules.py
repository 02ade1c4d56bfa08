"""Files with code in them, as the kernel knows them: what the programs tell of an address leads here."""

import errno
import mmap
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.code.demangle import demangle
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.mappings import executable_mappings, open_mapped
from scope_bpf.errors import KernelError, NotElf

FIND_CODE = "scope_find_code"  # code.bpf.h
Identity = tuple[int, int]  # device and inode, as stat has them
_FIRST = (0).to_bytes(4, "little")
_MOST_TRIES = 1000  # of asking the kernel, which does not say while another of our threads maps or unmaps


@dataclass(frozen=True, eq=False)
class Module:
    """A file that watched processes have mapped.

    Attributes:
        path: as the process that showed it to us sees it; what is no UTF-8 in it is written out.
        inode: what the programs call it by: where the kernel keeps its inode, as long as the module is kept.
    """

    path: str
    inode: int
    file: FileIO
    elf: ElfFile
    mapped: mmap.mmap

    def name_at(self, offset: int, begin: bool = False) -> str | None:
        """The name of the function that spans an offset in the file, or begins there, as people write it.

        None if no symbol says.
        """
        address = self.elf.address_of(offset)
        for symbols in (self.elf.symbols, self.elf.dynamic_symbols):
            name = symbols.name_at(address, begin) if symbols and address is not None else None
            if name:
                return demangle(name)
        return None

    def close(self) -> None:
        """Closes the file. May be called again."""
        self.mapped.close()
        self.file.close()

    def __del__(self) -> None:
        """With its last user."""
        self.close()

    def place_of(self, offset: int) -> str:
        """What stands for a name where there is none: libx.so.1+0x1234."""
        return f"{Path(self.path).name}+{offset:#x}"


class Modules:
    """The files that are kept. A file is one module, whatever its paths, and the overlays that show it.

    For any thread: one attaches to files while another names what was recorded.
    """

    def __init__(self, object_: BpfObject) -> None:
        self._object = object_
        self._found = object_.map(".data.code")
        self._lock = threading.RLock()  # the kernel's answer to `_inode_of` is in one place for everybody
        self._modules: dict[Identity, Module] = {}
        self._in_stacks: set[Module] = set()
        self.by_inode: dict[int, Module] = {}

    def add(self, file: FileIO, path: str) -> Module:
        """Keeps a file, which is ours from now on, unless it is kept already.

        Raises:
            NotElf: it has no code that we could read.
            KernelError: the kernel refused to say which file it is.
        """
        with self._lock:
            return self._add(file, path)

    def _add(self, file: FileIO, path: str) -> Module:
        named = identity(file)
        if named in self._modules:
            file.close()
            return self._modules[named]
        try:
            elf = ElfFile(file)
            mapped = mmap.mmap(file.fileno(), 1, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        except (NotElf, OSError) as error:
            file.close()
            raise NotElf(str(error)) from error
        inode = self._inode_of(mapped)
        if inode in self.by_inode:  # overlays over one file: containers of one image
            mapped.close()
            file.close()
            return self.by_inode[inode]
        text = os.fsencode(path).decode(errors="backslashreplace")
        module = self._modules[named] = self.by_inode[inode] = Module(text, inode, file, elf, mapped)
        return module

    def _inode_of(self, mapped: mmap.mmap) -> int:
        for _ in range(_MOST_TRIES):
            self._object.run(FIND_CODE, np.frombuffer(mapped, np.uint8).ctypes.data)
            if inode := int.from_bytes(self._found.lookup(_FIRST)[:8], "little"):
                return inode
        raise KernelError("cannot find out which file is mapped", errno.EBUSY)

    def add_for_stacks(self, file: FileIO, path: str) -> None:
        """Keeps a file whose functions may be in stacks, if it has code."""
        with self._lock, suppress(NotElf):
            self._in_stacks.add(self._add(file, path))

    def add_process(self, pid: int) -> None:
        """Keeps all that a process runs."""
        for mapping in executable_mappings(pid):
            with suppress(OSError):
                self.add_for_stacks(open_mapped(pid, mapping), mapping.path)

    def drop(self, module: Module) -> None:
        """Forgets a file that is not attached to, unless it may be in stacks; who reads it still has it open."""
        with self._lock:
            if module not in self._in_stacks:
                del self._modules[identity(module.file)]
                del self.by_inode[module.inode]

    def close(self) -> None:
        """Closes every file. May be called again."""
        with self._lock:
            for module in self.by_inode.values():
                module.close()
            self._modules, self.by_inode = {}, {}
            self._in_stacks.clear()


def identity(file: FileIO) -> Identity:
    """What tells files apart."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino
