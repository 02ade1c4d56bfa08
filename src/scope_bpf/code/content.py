"""The bytes of a file that a watched process has, read with pread only.

If another process truncates the file, reading a mapping of it would end this process with SIGBUS.
"""

import os
from io import BufferedReader, FileIO
from typing import Protocol

_OPEN = (FileIO, BufferedReader)


class Source(Protocol):
    """What a file is read from, if that is not open for reading."""

    size: int

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at an offset."""


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
        parts = []
        while size and (part := self._pread(size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def _pread(self, size: int, offset: int) -> bytes:
        if isinstance(self._file, _OPEN):
            return os.pread(self._file.fileno(), size, offset)
        return self._file.pread(size, offset)
