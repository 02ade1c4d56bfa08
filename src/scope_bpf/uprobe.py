"""Programs attached to functions of user space, file by file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scope_bpf._ffi import check, extension_file, ffi, lib, libbpf_log
from scope_bpf.catalogue import Function
from scope_bpf.elf import ElfFile
from scope_bpf.errors import KernelError

NOBODYS = 0xFFFFFFFF  # a cookie that no program knows


class Uprobes:
    """Attaches programs at the functions that a file has, until `close`.

    Args:
        programs: loaded programs by name.
        multi: one link for all functions of a file, which kernels have since 6.6, instead of one for each.
    """

    def __init__(self, functions: Sequence[Function], programs: Mapping[str, Any], multi: bool) -> None:
        self._functions, self._programs, self._multi = functions, programs, multi
        self._symbols = {symbol: function for function in functions for symbol in function.symbols}
        self._link_fds: list[int] = []
        self._links: list[Any] = []

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs."""
        return [int(lib.bpf_program__fd(program)) for program in self._programs.values()]

    def try_out(self) -> None:
        """Attaches every program for a moment where nobody calls: this package's extension, which is loaded already.

        Raises:
            KernelError: the kernel cannot do it this way.
        """
        with extension_file.open("rb", buffering=0) as file:
            ((_, offset),) = ElfFile(file).functions(["PyInit__native"]).items()
        for function in {(function.entry, function.leave): function for function in self._functions}.values():
            self._attach(str(extension_file), {offset: replace(function, cookie=NOBODYS)})
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
        before = len(self._link_fds), len(self._links)
        attach = self._attach_together if self._multi else self._attach_singly
        try:
            for at_return in (True, False):
                by_program: dict[str, dict[int, int]] = {}
                for offset, function in places.items():
                    program = function.leave if at_return else function.entry
                    by_program.setdefault(program, {})[offset] = function.cookie
                for program, cookies in by_program.items():
                    attach(program, path, cookies, at_return)
        except KernelError:
            self._detach(*before)
            raise

    def _attach_together(self, program: str, path: str, cookies: Mapping[int, int], at_return: bool) -> None:
        offsets = np.fromiter(cookies, np.uint64, len(cookies))
        values = np.fromiter(cookies.values(), np.uint64, len(cookies))
        fd = lib.scope_attach_uprobes(
            self._programs[program],
            path.encode(),
            ffi.from_buffer("uint64_t[]", offsets),
            ffi.from_buffer("uint64_t[]", values),
            len(cookies),
            at_return,
        )
        self._link_fds.append(check(fd, f"cannot attach the BPF program '{program}' to functions of {path}"))

    def _attach_singly(self, program: str, path: str, cookies: Mapping[int, int], at_return: bool) -> None:
        for offset, cookie in cookies.items():
            libbpf_log()
            link = lib.scope_attach_uprobe(self._programs[program], path.encode(), offset, cookie, at_return)
            if link == ffi.NULL:
                action = f"cannot attach the BPF program '{program}' to a function of {path}"
                raise KernelError(action, ffi.errno, libbpf_log())
            self._links.append(link)

    def _detach(self, link_fds: int = 0, links: int = 0) -> None:
        while len(self._link_fds) > link_fds:
            lib.close(self._link_fds.pop())
        while len(self._links) > links:
            lib.bpf_link__destroy(self._links.pop())

    def close(self) -> None:
        """Detaches from every file. May be called again."""
        self._detach()
