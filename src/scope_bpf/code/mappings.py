"""Reads the executable mappings of a process."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scope_bpf.binding.capability import raised
from scope_bpf.binding.mapping_watch import FileId
from scope_bpf.host import CAP_CHECKPOINT_RESTORE, NO_DESCRIPTORS

VDSO = "[vdso]"


@dataclass(frozen=True)
class Mapping:
    """An executable part of a file, or the vDSO, in a process's memory."""

    start: int
    end: int
    offset: int
    file: FileId
    path: str


def executable_mappings(pid: int | str) -> list[Mapping]:
    """The executable mappings of files, and of the vDSO, of a process, in order of address; empty if it has ended.
    Format: proc(5), /proc/PID/maps.

    Args:
        pid: of the process, or "self".

    Raises:
        OSError: no descriptor is free.
    """
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        if error.errno in NO_DESCRIPTORS:
            raise
        return []
    found = []
    for line in text.split("\n")[:-1]:  # a path may contain other line separators, on which splitlines() would split
        addresses, permissions, offset, device, inode, *rest = line.split(maxsplit=5)
        if "x" in permissions and (inode != "0" or rest == [VDSO]):
            start, _, end = addresses.partition("-")
            major, _, minor = device.partition(":")
            file = (int(major, 16), int(minor, 16), int(inode))
            found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), file, rest[0] if rest else ""))
    return found


def open_mapped(pid: int, mapping: Mapping) -> int:
    """A descriptor of the mapped file, which the caller closes. Works if the path was deleted, replaced, or is in
    another namespace.

    Raises:
        OSError: the process or the mapping is gone, or CAP_CHECKPOINT_RESTORE is missing.
    """
    with raised(CAP_CHECKPOINT_RESTORE):
        return os.open(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}", os.O_RDONLY | os.O_CLOEXEC)


def file_of(news: Any) -> FileId:
    """The file id in a piece of news."""
    file = news["file"]
    return int(file["major"]), int(file["minor"]), int(file["inode"])


def mapping_of(news: Any) -> Mapping:
    """The mapping in a piece of news."""
    path = os.fsdecode(bytes(news["path"]))
    return Mapping(int(news["start"]), int(news["end"]), int(news["offset"]), file_of(news), path)


def running_processes() -> list[int]:
    """The pids of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
