"""Files with code in them, as the kernel knows them: what the programs tell of an address leads here."""

import errno
import os
import threading
from pathlib import Path

from scope_bpf.binding.demangle import demangle
from scope_bpf.binding.object import BpfObject
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.history import History
from scope_bpf.code.kept_files import KeptFile, KeptFiles
from scope_bpf.errors import KernelError, NotElf

FIND_CODE = "scope_find_code"  # code.bpf.h
Identity = tuple[int, int]  # device and inode, as stat has them
_FIRST = (0).to_bytes(4, "little")
_MOST_TRIES = 1000  # of asking the kernel, which does not say while another of our threads maps or unmaps
_MAGIC = b"\x7fELF"


class Module:
    """A file that watched processes have mapped. For any thread.

    Attributes:
        path: as the process that showed it to us sees it; what is no UTF-8 in it is written out.
        inode: what the programs call it by: where the kernel keeps its inode, as long as the module is kept.
        file: what keeps it; None: `elf` has a file of its own.
        named: how stat tells it apart.
    """

    def __init__(
        self, path: str, inode: int, elf: ElfFile, file: KeptFile | None = None, named: Identity = (0, 0)
    ) -> None:
        self.path, self.inode, self.elf, self.file, self.named = path, inode, elf, file, named
        self._frames: dict[int, str] = {}

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

    def place_of(self, offset: int) -> str:
        """What stands for a name where there is none: libx.so.1+0x1234."""
        return f"{Path(self.path).name}+{offset:#x}"

    def frame_at(self, offset: int) -> str:
        """What a stack has of an offset: the function's name, or the place and the build in which it is one."""
        if offset not in self._frames:
            place = f"{self.place_of(offset)} [{self.elf.build_id or 'no build id'}]"
            self._frames[offset] = (self.name_at(offset) or place).replace(";", ",")
        return self._frames[offset]


class Modules:
    """The files that are kept. A file is one module, whatever its paths, and the overlays that show it.

    `add` and `drop` are for one thread at a time; what is found in `by_inode`, for any.

    Attributes:
        files: what keeps them.
        history: which processes had them mapped, where and when.
    """

    def __init__(self, object_: BpfObject) -> None:
        self._object = object_
        self._found = object_.map(".data.code")
        self._adding = threading.Lock()
        self._names: dict[Identity, Module] = {}  # as long as a file is kept, no other has its device and number
        self.history = History()
        self.files = KeptFiles()
        self.by_inode: dict[int, Module] = {}

    def add(self, fd: int, path: str) -> Module:
        """Keeps a file, by a descriptor that is ours from now on, unless it is kept already.

        Raises:
            NotElf: it has no code that we could read.
            KernelError: the kernel refused to say which file it is.
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
            raise NotElf("no ELF file")
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
        if inode in self.by_inode:  # overlays over one file: containers of one image
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
        """Lets go of a file that nobody maps any more. May be called again."""
        with self._adding:
            if self.by_inode.pop(module.inode, None):
                del self._names[module.named]
                assert module.file
                module.file.close()

    def close(self) -> None:
        """Lets go of every file. May be called again."""
        for module in list(self.by_inode.values()):
            self.drop(module)
