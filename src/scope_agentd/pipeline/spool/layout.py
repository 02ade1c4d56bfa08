"""The format of a segment of the spool on disk, and a reader that copes with damage.

A segment is a file named by its number, `00000000000000000042.segment`:

    offset  size  little-endian
    0       8     magic, b"SCOPESEG"
    8       4     version of this layout: 1
    12      4     CRC-32 of the 12 bytes before
    16            frames, as in `scope_wire.frame`, one after the other

The contents of frames are in `entries`.
"""

import errno
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scope_wire.errors import DamagedRecord
from scope_wire.frame import HEADER_BYTES, MAGIC, checksum, read_header

SEGMENT_MAGIC = b"SCOPESEG"
VERSION = 1
SUFFIX = ".segment"
_HEADER = struct.Struct("<8sII")
FIRST_FRAME = _HEADER.size
_PAGE = 4096
_NOT_REGULAR = (errno.ELOOP, errno.EISDIR, errno.ENXIO)  # what opening a link, a folder or a socket fails with


@dataclass(frozen=True, slots=True)
class Frame:
    """A valid frame: its place in the file, its payload, and the payload's checksum."""

    offset: int
    end: int
    payload: bytes
    crc32: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not a valid frame. If the header is valid, `payload` is the damaged payload."""

    offset: int
    end: int
    payload: bytes | None


def segment_name(number: int) -> str:
    """The file name of a segment."""
    return f"{number:020}{SUFFIX}"


def segment_header() -> bytes:
    """The first bytes of a segment."""
    start = struct.pack("<8sI", SEGMENT_MAGIC, VERSION)
    return start + struct.pack("<I", zlib.crc32(start))


def version_of(data: bytes) -> int | None:
    """The version of a segment's format; None: its header is damaged."""
    if len(data) < FIRST_FRAME:
        return None
    magic, version, crc32 = _HEADER.unpack_from(data)
    if magic != SEGMENT_MAGIC or crc32 != zlib.crc32(data[: FIRST_FRAME - 4]):
        return None
    return int(version)


def open_segment(file: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a segment. A symbolic link is not followed: the agent may run as root.

    Raises:
        FileNotFoundError: no regular file has this name.
        OSError: the file cannot be opened now.
    """
    try:
        descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NOT_REGULAR:
            raise _not_regular(file) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(file)
    return descriptor


def cut_segment(file: Path, size: int) -> None:
    """Cuts a segment's file down to this size.

    Raises:
        OSError: the file cannot be opened or changed.
    """
    descriptor = open_segment(file, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def _not_regular(file: Path) -> OSError:
    return FileNotFoundError(errno.ENOENT, "not a regular file", str(file))


def read_segment(file: Path, size: int | None = None) -> bytes:
    """The bytes of a segment, or its first `size` bytes; unreadable parts of the disk are zeros.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = open_segment(file)
    try:
        length = _data_end(descriptor) if size is None else size
        try:
            return os.pread(descriptor, length, 0)
        except OSError:
            return b"".join(_page(descriptor, at, min(_PAGE, length - at)) for at in range(0, length, _PAGE))
    finally:
        os.close(descriptor)


def _data_end(descriptor: int) -> int:
    """The end of the last data in a file. A hole at its end takes no space, however large the file claims to be."""
    size, end = os.fstat(descriptor).st_size, 0
    try:
        while end < size:
            end = os.lseek(descriptor, os.lseek(descriptor, end, os.SEEK_DATA), os.SEEK_HOLE)
    except OSError as error:
        return end if error.errno == errno.ENXIO else size
    return end


def _page(descriptor: int, at: int, length: int) -> bytes:
    try:
        return os.pread(descriptor, length, at).ljust(length, b"\0")
    except OSError:
        return bytes(length)


def frame_at(data: bytes, offset: int, position: int) -> Frame | None:
    """The frame at `offset` in `data`; `data` begins at `position` of its file. None: the frame is not valid."""
    try:
        header = read_header(data[offset : offset + HEADER_BYTES])
    except DamagedRecord:
        return None
    start = offset + HEADER_BYTES
    payload = data[start : start + header.length]
    if len(payload) < header.length or checksum(payload) != header.crc32:
        return None
    return Frame(position, position + HEADER_BYTES + header.length, payload, header.crc32)


def scan(data: bytes) -> Iterator[Frame | Damage]:
    """All frames of a segment, in order. After damage, continues at the next frame with a valid header."""
    offset = FIRST_FRAME
    while offset < len(data):
        frame = frame_at(data, offset, offset)
        part = frame if frame is not None else _damage_at(data, offset)
        yield part
        offset = part.end


def _damage_at(data: bytes, offset: int) -> Damage:
    start = offset + HEADER_BYTES
    length = _length_at(data, offset)
    if length is not None and start + length <= len(data):
        return Damage(offset, start + length, data[start : start + length])
    end = data.find(MAGIC, offset + 1)
    while end >= 0 and _length_at(data, end) is None:
        end = data.find(MAGIC, end + 1)
    return Damage(offset, end if end >= 0 else len(data), None)


def _length_at(data: bytes, offset: int) -> int | None:
    try:
        return read_header(data[offset : offset + HEADER_BYTES]).length
    except DamagedRecord:
        return None
