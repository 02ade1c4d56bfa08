"""Separate debug files on this machine: `/usr/lib/debug/.build-id/`, and those that `.gnu_debuglink` names.

Formats: GDB manual, "Debugging Information in Separate Files". Where a debug file lies says nothing about its content,
so each file is checked.
"""

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import NotElf

_FOLDER = Path("/usr/lib/debug")
_LARGEST_SUMMED = 1 << 30  # bytes; a larger file without build id is not read to its end
_PIECE = 1 << 20


class _DebugFile(FileIO):
    """Is closed after its last use, so that no thread loses it while reading."""

    def __del__(self) -> None:
        self.close()


def debug_file_at(path: Path, build_id: str) -> ElfFile:
    """The debug file at a path.

    Args:
        build_id: hexadecimal, which the file must have; empty: any.

    Raises:
        NotElf: the file is not the wanted one, or has no symbols.
        OSError: there is no file that can be read.
    """
    # Nobody waits for the writer of a pipe.
    file = _DebugFile(path, opener=lambda name, _: os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise NotElf("no regular file")
    elf = ElfFile(file)
    if build_id and elf.build_id != build_id:
        raise NotElf("the build id is that of another file")
    if not elf.symbols:
        raise NotElf("no symbols")
    return elf


def local_debug_file(elf: ElfFile, path: str) -> ElfFile | None:
    """The debug file of a stripped file, if this machine has it.

    Args:
        path: of the stripped file.
    """
    build_id = elf.build_id
    if len(build_id) > 2:
        with suppress(NotElf, OSError):
            return debug_file_at(_FOLDER / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug", build_id)
    name, _, rest = elf.section(".gnu_debuglink")[1].partition(b"\0")
    for candidate in _linked(name, path):
        with suppress(NotElf, OSError, ValueError):
            found = debug_file_at(candidate, build_id)
            if build_id or _sum_of(found) == int.from_bytes(rest[-4:], "little"):
                return found
    return None


def _linked(name: bytes, path: str) -> Iterator[Path]:
    """The places of a file that `.gnu_debuglink` names."""
    if not name or b"/" in name or not path.startswith("/"):
        return
    folder = Path(path).parent
    for place in (folder, folder / ".debug", _FOLDER / folder.relative_to("/")):
        yield place / os.fsdecode(name)


def _sum_of(elf: ElfFile) -> int | None:
    """The CRC-32 of the whole file; None: it is too large."""
    if elf.size > _LARGEST_SUMMED:
        return None
    total = 0
    for begin in range(0, elf.size, _PIECE):
        total = zlib.crc32(elf.read(begin, _PIECE), total)
    return total
