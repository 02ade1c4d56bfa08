"""What a process says, in a file of bounded size."""

import os
import shutil
from pathlib import Path
from typing import BinaryIO

LIMIT = 16 << 20
_TAIL = 8 << 10


class LogFile:
    """A file that processes append to, opened for each by `opened`, and one older beside it (`NAME.1`).

    Args:
        path: of the file.
        limit: bytes from which on `rotate` begins anew.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self._limit = limit
        self._from = 0

    def opened(self) -> BinaryIO:
        """The file, for the standard output of a process; `said` looks at what is said from now on.

        Raises:
            OSError: it cannot be opened.
        """
        self.rotate()
        file = self.path.open("ab")
        self._from = file.tell()
        return file

    def rotate(self) -> None:
        """Keeps the file as `NAME.1` and empties it, if it has grown too large; processes may write meanwhile."""
        try:
            if self.path.stat().st_size <= self._limit:
                return
        except FileNotFoundError:
            return
        try:
            shutil.copyfile(self.path, self.path.with_name(f"{self.path.name}.1"))
        except OSError:
            self.path.with_name(f"{self.path.name}.1").unlink(missing_ok=True)  # no space: part of it is no use
        os.truncate(self.path, 0)  # whoever appends goes on at the new end
        self._from = 0

    def said(self) -> list[str]:
        """The last lines, without empty ones, that were written since `opened`."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._from if self._from <= size else 0, size - _TAIL))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [line for line in text.splitlines() if line.strip()]
