"""Modules: files with code. BPF programs identify a module by the kernel address of its inode."""

import errno
import os
import threading
from functools import cached_property
from pathlib import Path

from scope_bpf.binding.demangle import demangle
from scope_bpf.binding.object import BpfObject
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.history import History
from scope_bpf.code.kept_files import KeptFile, KeptFiles
from scope_bpf.code.usdt import Site, sites
from scope_bpf.errors import KernelError, NotElf

FIND_CODE = "scope_find_code"  # code.bpf.h
Identity = tuple[int, int]  # device and inode from stat
_FIRST = (0).to_bytes(4, "little")
_MOST_TRIES = 1000  # the kernel cannot answer while another of our threads maps or unmaps memory
_MAGIC = b"\x7fELF"


class Module:
    """A file that watched processes have mapped. For any thread.

    Attributes:
        path: the path as seen by the process that mapped it; bytes that are not UTF-8 are escaped.
        inode: kernel address of the file's inode; valid as long as the module is kept.
        file: the kept file; None: `elf` has its own file.
        named: device and inode from stat.
        debug: the separate debug file, which has the symbols of a stripped file; None: none was found (yet).
    """

    def __init__(
        self, path: str, inode: int, elf: ElfFile, file: KeptFile | None = None, named: Identity = (0, 0)
    ) -> None:
        self.path, self.inode, self.elf, self.file, self.named = path, inode, elf, file, named
        self.debug: ElfFile | None = None

    def name_at(self, offset: int, begin: bool = False) -> str | None:
        """The demangled name of the function that contains an offset in the file; with `begin`, that starts there.

        None if there is no symbol.
        """
        address = self.elf.address_of(offset)
        debug = self.debug
        # The debug file comes last, so that a name stays the same when it arrives.
        for symbols in (self.elf.symbols, self.elf.dynamic_symbols, debug.symbols if debug else None):
            name = symbols.name_at(address, begin) if symbols and address is not None else None
            if name:
                return demangle(name)
        return None

    @cached_property
    def usdt_sites(self) -> dict[int, list[Site]]:
        """The file's USDT sites by offset."""
        found: dict[int, list[Site]] = {}
        for site in sites(self.elf):
            found.setdefault(site.offset, []).append(site)
        return found

    def place_of(self, offset: int) -> str:
        """The text for an offset without a name: libx.so.1+0x1234."""
        return f"{Path(self.path).name}+{offset:#x}"


class Modules:
    """All kept files. A file is one module, even if it has several paths or is visible through overlays.

    `add` and `drop` are for one thread at a time; modules in `by_inode` may be used by any thread.

    Attributes:
        files: keeps the files readable.
        history: where and when processes had them mapped.
        ending: set when the trace is to end: from then on, files are read for names only.
    """

    def __init__(self, object_: BpfObject) -> None:
        self._object = object_
        self._found = object_.map(".data.code")
        self._adding = threading.Lock()
        self._names: dict[Identity, Module] = {}  # while a file is kept, no other file gets its device and inode
        self.history = History()
        self.ending = threading.Event()
        self.files = KeptFiles()
        self.by_inode: dict[int, Module] = {}

    def add(self, fd: int, path: str) -> Module:
        """Keeps a file, unless it is kept already. Takes over the descriptor.

        Raises:
            NotElf: the file has no readable code.
            KernelError: the kernel could not identify the file.
        """
        with self._adding:
            found = os.fstat(fd)
            named = found.st_dev, found.st_ino
            if named in self._names:
                os.close(fd)
                return self._names[named]
            return self._made(fd, path, named)

    def _made(self, fd: int, path: str, named: Identity) -> Module:
        try:
            is_elf = os.pread(fd, len(_MAGIC), 0) == _MAGIC
        except OSError:
            is_elf = False
        if not is_elf:
            os.close(fd)
            raise NotElf("not an ELF file")
        try:
            file = self.files.keep(fd)
        except OSError as error:
            raise NotElf(str(error)) from error
        try:
            elf = ElfFile(file)
            inode = self._inode_of(file.held.address)
        except (NotElf, KernelError):
            file.close()
            raise
        if inode in self.by_inode:  # overlays of the same file: containers of one image
            file.close()
            return self.by_inode[inode]
        file.forget = elf.forget
        text = os.fsencode(path).decode(errors="backslashreplace")
        module = self._names[named] = self.by_inode[inode] = Module(text, inode, elf, file, named)
        return module

    def _inode_of(self, address: int) -> int:
        for _ in range(_MOST_TRIES):
            self._object.run(FIND_CODE, address)
            if inode := int.from_bytes(self._found.lookup(_FIRST)[:8], "little"):
                return inode
        raise KernelError("cannot find out which file is mapped", errno.EBUSY)

    def drop(self, module: Module) -> None:
        """Releases a file that no process maps any more. May be called again."""
        with self._adding:
            if self.by_inode.pop(module.inode, None):
                del self._names[module.named]
                assert module.file
                module.file.close()

    def close(self) -> None:
        """Releases all files. May be called again."""
        for module in list(self.by_inode.values()):
            self.drop(module)
