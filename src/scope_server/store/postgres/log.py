"""A log file of limited size for a process's output, which only its owner can read."""

import os
import shutil
from pathlib import Path
from typing import BinaryIO

LIMIT = 16 << 20
_TAIL = 8 << 10


class LogFile:
    """A file to which processes append, opened by `opened`, and one older file (`NAME.1`).

    Args:
        path: path of the file.
        limit: size in bytes at which `rotate` starts a new file.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self._limit = limit
        self._from = 0

    def opened(self) -> BinaryIO:
        """The open file, for a process's standard output; `said` returns lines written from now on.

        Raises:
            OSError: the file cannot be opened.
        """
        self.rotate()
        self.path.touch(0o600)
        self.path.chmod(0o600)  # an earlier version made it readable for all
        file = self.path.open("ab")
        self._from = file.tell()
        return file

    def rotate(self) -> None:
        """If the file is too large, copies it to `NAME.1` and empties it; processes may write meanwhile."""
        try:
            if self.path.stat().st_size <= self._limit:
                return
        except FileNotFoundError:
            return
        try:
            shutil.copy(self.path, self.path.with_name(f"{self.path.name}.1"))  # with its mode
        except OSError:
            self.path.with_name(f"{self.path.name}.1").unlink(missing_ok=True)  # no space: do not keep a part
        os.truncate(self.path, 0)  # processes continue to append at the new end
        self._from = 0

    def said(self) -> list[str]:
        """The last non-empty lines written since `opened`."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._from if self._from <= size else 0, size - _TAIL))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [line for line in text.splitlines() if line.strip()]
