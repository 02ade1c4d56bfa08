"""Which files a process has mapped to run their code."""

from dataclasses import dataclass
from io import FileIO
from pathlib import Path


@dataclass(frozen=True)
class Mapping:
    """A part of a file in a process's memory, that may be executed. `device` and `inode` are as /proc shows them."""

    start: int
    end: int
    offset: int
    device: str
    inode: int
    path: str


def executable_mappings(pid: int) -> list[Mapping]:
    """What the process runs, in order of address; empty if it is gone. Format: proc(5), /proc/PID/maps."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        addresses, permissions, offset, device, inode, *rest = line.split(maxsplit=5)
        if "x" in permissions and inode != "0":
            start, _, end = addresses.partition("-")
            path = rest[0] if rest else ""
            found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), device, int(inode), path))
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
