"""Space that is kept for the day on which the file system is full."""

import logging
import os
import shutil
from pathlib import Path

BALLAST_BYTES = 64 << 20  # recovery makes WAL segments of 16 MiB, and pages that the WAL has and the tables lack
_log = logging.getLogger(__name__)


def free_bytes(directory: Path) -> int:
    """What PostgreSQL may still write to the file system of a directory."""
    return shutil.disk_usage(directory).free


def told_full(directory: Path) -> str:
    """That there is no space, and what to do, for the message of an error."""
    free = free_bytes(directory) >> 20
    return f"no space for PostgreSQL in {directory} ({free} MiB free): free some on that file system"


class Ballast:
    """A file whose only use is that it can be removed: PostgreSQL cannot recover where it cannot write.

    Args:
        file: the file.
        size: its size in bytes.
    """

    def __init__(self, file: Path, size: int = BALLAST_BYTES) -> None:
        self._file, self._size = file, size

    def keep(self) -> None:
        """Makes the file if it is missing and at least as much again stays free; does nothing otherwise."""
        try:
            if self._file.exists() or free_bytes(self._file.parent) < 2 * self._size:
                return
            made = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(made, 0, self._size)
            except OSError:
                self._file.unlink(missing_ok=True)
                raise
            finally:
                os.close(made)
        except OSError as error:
            _log.warning("no ballast can be kept", extra={"file": str(self._file), "reason": error.strerror})

    def drop(self) -> bool:
        """Removes the file; whether there was one."""
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        _log.warning("the file system is full: ballast given up", extra={"file": str(self._file), "bytes": self._size})
        return True
