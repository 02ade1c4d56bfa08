"""Which files a process has mapped to run their code."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from scope_bpf._ffi import ffi, lib
from scope_bpf.errors import KernelError
from scope_bpf.map import possible_cpus

FileId = tuple[int, int, int]  # major, minor, inode as /proc shows them

_NEWS = np.dtype(
    [
        *(("start", "<u8"), ("end", "<u8"), ("major", "<u4"), ("minor", "<u4"), ("inode", "<u8")),
        *(("generation", "<u8"), ("pid", "<i8")),
    ]
)  # scope_mapping in cdef/shim.h
_MOST_NEWS = 4096  # in one reading


@dataclass(frozen=True)
class Mapping:
    """A part of a file in a process's memory, that may be executed."""

    start: int
    end: int
    offset: int
    file: FileId
    path: str


def executable_mappings(pid: int) -> list[Mapping]:
    """What the process runs, in order of address; empty if it is gone. Format: proc(5), /proc/PID/maps."""
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return []
    found = []
    for line in text.split("\n")[:-1]:  # a path may have any other character that ends a line elsewhere
        addresses, permissions, offset, device, inode, *rest = line.split(maxsplit=5)
        if "x" in permissions and inode != "0":
            start, _, end = addresses.partition("-")
            major, _, minor = device.partition(":")
            file = (int(major, 16), int(minor, 16), int(inode))
            found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), file, rest[0] if rest else ""))
    return found


def open_mapped(pid: int, mapping: Mapping) -> FileIO:
    """The file itself, whatever has become of its path: deleted, replaced, or in another mount namespace.

    Raises:
        OSError: the process or the mapping is gone, or CAP_CHECKPOINT_RESTORE is lacking.
    """
    return FileIO(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}")


def running_processes() -> list[int]:
    """The pids of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


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
