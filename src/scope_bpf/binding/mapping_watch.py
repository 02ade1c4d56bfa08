"""Which processes map files to run them, as the kernel tells profilers."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from scope_bpf.binding.ffi import ffi, lib
from scope_bpf.binding.map import possible_cpus
from scope_bpf.errors import KernelError

FileId = tuple[int, int, int]  # major, minor, inode as /proc shows them

_NEWS = np.dtype(
    [
        *(("start", "<u8"), ("end", "<u8"), ("major", "<u4"), ("minor", "<u4"), ("inode", "<u8")),
        *(("generation", "<u8"), ("pid", "<i8")),
    ]
)  # scope_mapping in cdef/shim.h
_MOST_NEWS = 4096  # in one reading


class MappingWatch:
    """Tells which processes map files to run that were not known, from now on. For one thread.

    Raises:
        KernelError: the kernel refused.
    """

    def __init__(self) -> None:
        self._cpus = possible_cpus()
        self._mappings: Any = lib.scope_mappings_new(self._cpus)
        if self._mappings == ffi.NULL:
            raise KernelError("cannot watch what processes map", ffi.errno)
        self._news = np.zeros(_MOST_NEWS, _NEWS)
        self._told = self._news[:0]

    def descriptors(self) -> Iterator[int]:
        """What becomes readable when there is news."""
        for cpu in range(self._cpus):
            if (fd := lib.scope_mappings_fd(self._mappings, cpu)) >= 0:
                yield fd

    def processes(self) -> set[int] | None:
        """Who mapped what is not known; None if news were lost, so that it may be anybody."""
        count = lib.scope_mappings_read(self._mappings, ffi.from_buffer("scope_mapping[]", self._news), len(self._news))
        self._told = self._news[: max(0, count)]
        return None if count < 0 else set(self._told["pid"].tolist())

    def know(self, files: Collection[FileId]) -> None:
        """Has mappings of these files, as far as they were among the last news, passed over from now on."""
        for one in self._told:
            named = {name: int(one[name]) for name in ("major", "minor", "inode", "generation")}
            if (named["major"], named["minor"], named["inode"]) in files:
                lib.scope_mappings_know(self._mappings, named)

    def close(self) -> None:
        """Frees what the kernel keeps for it. May be called again."""
        if self._mappings != ffi.NULL:
            lib.scope_mappings_free(self._mappings)
            self._mappings = ffi.NULL
