"""Uprobes: programs attached to offsets in a file; they run whenever a process executes the code there."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scope_bpf.binding.ffi import check, extension_file, ffi, lib, libbpf_log
from scope_bpf.errors import KernelError

EXTENSION = extension_file  # a loaded file whose code nobody calls: used to try out attaching
NO_COUNTERS: Mapping[int, int] = {}


def try_together(offset: int) -> None:
    """Attaches a program that does nothing, as `multi` does, to an offset in `EXTENSION`, and detaches it.

    Raises:
        KernelError: the kernel does not support this (before Linux 6.6).
    """
    check(lib.scope_try_uprobes(str(EXTENSION).encode(), offset), "cannot attach to many functions at once")


class UprobeLinks:
    """Attaches loaded programs until `close`.

    Args:
        programs: by name.
        multi: use one link for all places of a program in a file (Linux 6.6 and later), instead of one per place.
    """

    def __init__(self, programs: Mapping[str, Any], multi: bool) -> None:
        self._programs, self._multi = programs, multi
        self._links: list[int | Any] = []  # descriptors, or libbpf's links

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs."""
        return [int(lib.bpf_program__fd(program)) for program in self._programs.values()]

    @property
    def count(self) -> int:
        """The number of links, as an argument for `detach`."""
        return len(self._links)

    def attach(
        self,
        program: str,
        path: str,
        cookies: Mapping[int, int],
        *,
        at_return: bool,
        counters: Mapping[int, int] = NO_COUNTERS,
    ) -> None:
        """Attaches a program to offsets in a file, each with a cookie for the program.

        Args:
            counters: by offset: where in the file a 16-bit counter is that the kernel keeps higher by one in all
                processes while the program is attached. The kernel refuses another counter for the same offset.

        Raises:
            KernelError: the kernel refused; some places may be attached.
        """
        if self._multi:
            self._attach_together(program, path, cookies, counters, at_return)
        else:
            self._attach_singly(program, path, cookies, counters, at_return)

    def _attach_together(
        self, program: str, path: str, cookies: Mapping[int, int], counters: Mapping[int, int], at_return: bool
    ) -> None:
        offsets = np.fromiter(cookies, np.uint64, len(cookies))
        values = np.fromiter(cookies.values(), np.uint64, len(cookies))
        counted = np.fromiter((counters.get(offset, 0) for offset in cookies), np.uint64, len(cookies))
        fd = lib.scope_attach_uprobes(
            self._programs[program],
            path.encode(),
            ffi.from_buffer("uint64_t[]", offsets),
            ffi.from_buffer("uint64_t[]", values),
            ffi.from_buffer("uint64_t[]", counted) if counted.any() else ffi.NULL,
            len(cookies),
            at_return,
        )
        self._links.append(check(fd, f"cannot attach the BPF program '{program}' to functions of {path}"))

    def _attach_singly(
        self, program: str, path: str, cookies: Mapping[int, int], counters: Mapping[int, int], at_return: bool
    ) -> None:
        for offset, cookie in cookies.items():
            libbpf_log()
            counter = counters.get(offset, 0)
            link = lib.scope_attach_uprobe(self._programs[program], path.encode(), offset, cookie, counter, at_return)
            if link == ffi.NULL:
                action = f"cannot attach the BPF program '{program}' to a function of {path}"
                raise KernelError(action, ffi.errno, libbpf_log())
            self._links.append(link)

    def detach(self, keep: int = 0) -> None:
        """Detaches all links except the first `keep`."""
        while len(self._links) > keep:
            link = self._links.pop()
            if isinstance(link, int):
                lib.close(link)
            else:
                lib.bpf_link__destroy(link)

    def close(self) -> None:
        """Detaches from all files. May be called again."""
        self.detach()
