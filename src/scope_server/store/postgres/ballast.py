"""Reserved disk space, for the case that the file system is full."""

import logging
import os
import shutil
from pathlib import Path

BALLAST_BYTES = 64 << 20  # recovery writes WAL segments of 16 MiB, and pages that are in the WAL but not in the tables
_log = logging.getLogger(__name__)


def free_bytes(directory: Path) -> int:
    """Bytes that PostgreSQL can still write to the file system of a directory."""
    return shutil.disk_usage(directory).free


def told_full(directory: Path) -> str:
    """An error message about missing space, with the remedy."""
    free = free_bytes(directory) >> 20
    return f"no space for PostgreSQL in {directory} ({free} MiB free): free some on that file system"


class Ballast:
    """A file that only reserves space: it is removed when PostgreSQL needs space to recover.

    Args:
        file: the file.
        size: its size in bytes.
    """

    def __init__(self, file: Path, size: int = BALLAST_BYTES) -> None:
        self._file, self._size = file, size

    def keep(self) -> None:
        """Creates the file if it is missing and at least the same space remains free."""
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
        """Removes the file; returns whether it existed."""
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        _log.warning(
            "the file system is full: freed the reserved space", extra={"file": str(self._file), "bytes": self._size}
        )
        return True
