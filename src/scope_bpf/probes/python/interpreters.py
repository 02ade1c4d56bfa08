"""Which CPython interpreters watched processes run, and which of their calls can be seen."""

import re
from collections.abc import Iterator

import pyarrow as pa

from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.history import Process
from scope_bpf.code.modules import Module
from scope_bpf.probes.python.interpreter_files import has_entries, layout_of
from scope_bpf.probes.python.layouts import EVALUATES

_VERSION = "Py_Version"  # since CPython 3.11, Python/getversion.c
_MOST_TOLD = 16  # interpreters in notes
_SONAME = re.compile(r"python(\d\.\d+)")


class Interpreters:
    """Tells of each interpreter how its calls are seen; see `scope_bpf.code.resolver.Resolver`.

    Args:
        evaluate: calls of interpreters without USDT probes are recorded, too.
    """

    def __init__(self, *, evaluate: bool) -> None:
        self._evaluate = evaluate
        self._said: dict[str, str] = {}  # by path

    def add_module(self, module: Module) -> bool:
        """Looks whether the file is an interpreter."""
        if has_entries(module.elf):
            self._said[module.path] = f"every call, by the USDT probes of {_named(module)}"
        elif module.elf.functions([EVALUATES]):
            self._said[module.path] = self._without_probes(module)
        return False

    def _without_probes(self, module: Module) -> str:
        lacks = f"{_named(module)} has no USDT probes for calls"
        if not layout_of(module.elf):
            return f"{lacks}, and no other way to record its calls is known; sample its stacks instead"
        if not self._evaluate:
            return f"{lacks}: -o evaluate=true records them, but ends a program that switches stacks, as gevent does"
        return f"calls up to 64 deep, by the evaluation of frames: {lacks}. Names that are not ASCII may be absent"

    def find_functions(self, module: Module) -> dict[str, int]:
        """None: all have symbols."""
        return {}

    def drop_module(self, module: Module) -> None:
        """Nothing to release: notes tell of past processes, too."""

    def add_process(self, process: Process) -> None:
        """Nothing to keep."""

    def notes(self) -> list[str]:
        """What is seen of each interpreter."""
        said = list(self._said.copy().items())
        more = [f"and {len(said) - _MOST_TOLD:,} more interpreters"] if len(said) > _MOST_TOLD else []
        return [f"{path}: {text}" for path, text in said[:_MOST_TOLD]] + more

    def settle(self, timeout_s: float) -> None:
        """Nothing is read in the background."""

    def close(self) -> None:
        """Nothing runs."""

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """No stream has resolved columns."""
        return {}


def _named(module: Module) -> str:
    return " ".join(["CPython", *_versions(module)])


def _versions(module: Module) -> Iterator[str]:
    """The version, as X.Y; nothing if it is unknown."""
    if version := hex_version(module.elf):
        yield f"{version >> 24}.{version >> 16 & 0xFF}"
    elif match := _SONAME.search(module.path.rpartition("/")[2]):
        yield match[1]


def hex_version(elf: ElfFile) -> int:
    """PY_VERSION_HEX (Include/patchlevel.h) of CPython 3.11 and later; 0: another file."""
    for symbols in (elf.dynamic_symbols, elf.symbols):
        addresses = symbols.addresses_at(symbols.indices(_VERSION)).tolist() if symbols else []
        for address in addresses:
            if address > 0 and len(data := elf.read_at(address, 4)) == 4:
                return int.from_bytes(data, "little")
    return 0
