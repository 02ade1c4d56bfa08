"""The vDSO: code that the kernel maps into every process, for calls such as clock_gettime(). See vdso(7)."""

from functools import cache
from pathlib import Path

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.mappings import VDSO, Mapping, executable_mappings
from scope_bpf.code.modules import Module
from scope_bpf.errors import NotElf

_PREFIX = "__vdso_"
_COMPATIBLE = 1 << 32  # below, programs of 32 bits and x32 have another vDSO


class _Image:
    """The bytes of the vDSO, in place of a file."""

    def __init__(self, content: bytes) -> None:
        self._content, self.size = content, len(content)

    def pread(self, size: int, offset: int) -> bytes:
        return self._content[offset : offset + size]

    def is_hole(self, size: int, offset: int) -> bool:
        return False


class _Vdso(Module):
    """Its functions have two names; `__vdso_clock_gettime` tells it from the C library's function."""

    def name_at(self, offset: int, begin: bool = False) -> str | None:
        name, symbols = super().name_at(offset, begin), self.elf.dynamic_symbols
        found = symbols.addresses([name, _PREFIX + name]) if name and symbols else {}
        return _PREFIX + name if name and found.get(_PREFIX + name) == found.get(name) else name


def vdso_at(mapping: Mapping) -> Module | None:
    """The vDSO, if a mapping of a process is the same as that of this process; else None."""
    own = _own()
    is_same = own and mapping.path == VDSO and mapping.end - mapping.start == own.elf.size
    return own if is_same and mapping.start >= _COMPATIBLE else None


@cache
def _own() -> Module | None:
    """The vDSO of this process, which all processes of 64 bits share; None: this kernel has none that can be read."""
    mapping = next((one for one in executable_mappings("self") if one.path == VDSO), None)
    if not mapping:
        return None
    try:
        with Path("/proc/self/mem").open("rb", buffering=0) as memory:
            memory.seek(mapping.start)
            return _Vdso(VDSO, 0, ElfFile(_Image(memory.read(mapping.end - mapping.start))))
    except (OSError, NotElf):
        return None
