"""A lock that gives a directory one owner."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from scope_server.errors import DirectoryInUse

_PID_WIDTH = 20


class DirectoryLock:
    """A directory's lock file, with the owner's pid; the kernel releases the lock when the owner ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def take(self) -> None:
        """Takes the lock.

        Raises:
            DirectoryInUse: another process holds the lock.
            OSError: the lock file cannot be made.
        """
        if self.held:
            raise DirectoryInUse(str(self._directory), os.getpid())
        file = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(file)
            os.close(file)
            raise DirectoryInUse(str(self._directory), owner) from None
        with suppress(OSError):  # ignore a full file system; a fixed width overwrites the previous pid in place
            os.pwrite(file, str(os.getpid()).ljust(_PID_WIDTH).encode(), 0)
        self._file = file

    def release(self) -> None:
        """Releases the lock, if this object holds it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _owner(file: int) -> int:
    # The owner writes its number just after it took the lock.
    for _ in range(10):
        said = os.pread(file, _PID_WIDTH, 0).strip()
        if said.isdigit() and Path(f"/proc/{int(said)}").exists():
            return int(said)
        time.sleep(0.05)
    return 0
