"""Functions of user space that a probe's programs are attached to, file by file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scope_bpf.binding.uprobe import EXTENSION, UprobeLinks
from scope_bpf.catalogue.probe import Function
from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import KernelError

NOBODYS = 0xFFFFFFFF  # a cookie that no program knows


class Uprobes:
    """Attaches programs at the functions that a file has, until `close`. Arguments: see `UprobeLinks`."""

    def __init__(self, functions: Sequence[Function], programs: Mapping[str, Any], multi: bool) -> None:
        self._functions = functions
        self._links = UprobeLinks(programs, multi)
        self._symbols = {symbol: function for function in functions for symbol in function.symbols}

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs."""
        return self._links.program_fds

    def try_out(self) -> None:
        """Attaches every program for a moment where nobody calls: this package's extension, which is loaded already.

        Raises:
            KernelError: the kernel cannot do it this way.
        """
        with EXTENSION.open("rb", buffering=0) as file:
            ((_, offset),) = ElfFile(file).functions(["PyInit__native"]).items()
        for function in {(function.entry, function.leave): function for function in self._functions}.values():
            self._attach(str(EXTENSION), {offset: replace(function, cookie=NOBODYS)})
        self.close()

    def attach(self, path: str, file: ElfFile, found: dict[str, int]) -> int:
        """Attaches to what the file defines; returns to how many functions.

        Args:
            found: offsets of functions, by name, that were found without a symbol.

        Raises:
            KernelError: the kernel refused; nothing of this file stays attached.
        """
        places: dict[int, Function] = {}
        for symbol, offset in (found | file.functions(self._symbols)).items():
            places.setdefault(offset, self._symbols[symbol])  # names of one place are one function
        if places:
            probed = {file.cheapest_probe(offset): function for offset, function in places.items()}
            self._attach(path, probed)
        return len(places)

    def _attach(self, path: str, places: Mapping[int, Function]) -> None:
        """Returns first, so that every entry that is recorded has its return."""
        before = self._links.count
        try:
            for at_return in (True, False):
                by_program: dict[str, dict[int, int]] = {}
                for offset, function in places.items():
                    program = function.leave if at_return else function.entry
                    by_program.setdefault(program, {})[offset] = function.cookie
                for program, cookies in by_program.items():
                    self._links.attach(program, path, cookies, at_return=at_return)
        except KernelError:
            self._links.detach(before)
            raise

    def close(self) -> None:
        """Detaches from every file. May be called again."""
        self._links.close()
