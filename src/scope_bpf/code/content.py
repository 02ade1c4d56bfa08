"""The bytes of a file that a watched process has, read with pread only.

If another process truncates the file, reading a mapping of it would end this process with SIGBUS.
"""

import errno
import os
from io import BufferedReader, FileIO
from typing import Protocol

_OPEN = (FileIO, BufferedReader)
_LARGE = 1 << 18  # bytes; smaller parts are read at once


class Source(Protocol):
    """What a file is read from, if that is not open for reading."""

    size: int

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at an offset."""

    def is_hole(self, size: int, offset: int) -> bool:
        """Whether the file has no data in this range; what is read there is zeros."""


class Content:
    """The bytes of a file.

    Args:
        file: the file, open for reading or otherwise. The caller closes it, after the last use of this object.

    Attributes:
        size: size of the file in bytes.
    """

    def __init__(self, file: FileIO | BufferedReader | Source) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size if isinstance(file, _OPEN) else file.size

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at an offset; fewer at the end of the file."""
        size = max(0, min(size, self.size - offset))  # a damaged file may have any size
        if size >= _LARGE and self._is_hole(size, offset):
            return bytes(size)  # the kernel would fill its cache with zeros first
        parts = []
        while size and (part := self._pread(size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def _pread(self, size: int, offset: int) -> bytes:
        if isinstance(self._file, _OPEN):
            return os.pread(self._file.fileno(), size, offset)
        return self._file.pread(size, offset)

    def _is_hole(self, size: int, offset: int) -> bool:
        if isinstance(self._file, _OPEN):
            return is_hole(self._file.fileno(), size, offset)
        return self._file.is_hole(size, offset)


def is_hole(fd: int, size: int, offset: int) -> bool:
    """Whether a file has no data in a range (lseek(2), SEEK_DATA). False: it has, or this is not known."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA) >= offset + size
    except OSError as error:
        return error.errno == errno.ENXIO  # no data up to the file's end
