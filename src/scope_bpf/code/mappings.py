"""Which files a process has mapped to run their code."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scope_bpf.binding.mapping_watch import FileId
from scope_bpf.host import NO_DESCRIPTORS


@dataclass(frozen=True)
class Mapping:
    """A part of a file in a process's memory, that may be executed."""

    start: int
    end: int
    offset: int
    file: FileId
    path: str


def executable_mappings(pid: int) -> list[Mapping]:
    """What the process runs, in order of address; empty if it is gone. Format: proc(5), /proc/PID/maps.

    Raises:
        OSError: there is no descriptor left to read it with.
    """
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        if error.errno in NO_DESCRIPTORS:
            raise
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


def open_mapped(pid: int, mapping: Mapping) -> int:
    """A descriptor, the caller's, of the file itself, whatever its path is: deleted, replaced, in another namespace.

    Raises:
        OSError: the process or the mapping is gone, or CAP_CHECKPOINT_RESTORE is lacking.
    """
    return os.open(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}", os.O_RDONLY | os.O_CLOEXEC)


def file_of(news: Any) -> FileId:
    """The file that was mapped, by what the kernel told of it."""
    file = news["file"]
    return int(file["major"]), int(file["minor"]), int(file["inode"])


def mapping_of(news: Any) -> Mapping:
    """What was mapped, by what the kernel told of it."""
    path = os.fsdecode(bytes(news["path"]))
    return Mapping(int(news["start"]), int(news["end"]), int(news["offset"]), file_of(news), path)


def running_processes() -> list[int]:
    """The pids of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
