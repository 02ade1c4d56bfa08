"""The directory of a spool: one owner at a time, and the segments in it."""

import contextlib
import fcntl
import logging
import os
import stat
from pathlib import Path

from scope_agentd.errors import SpoolInUse, SpoolUnusable
from scope_agentd.pipeline.spool.layout import SUFFIX, segment_name

log = logging.getLogger(__name__)

LOCK = "lock"


class Home:
    """A spool's directory. It is made if missing (mode 0700), and locked until `close` or the process's end.

    Raises:
        SpoolInUse: another spool, in this or another process, uses the directory.
        SpoolUnusable: the directory cannot be made or written to.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory
        try:
            self._lock, self._made = _locked(directory), directory.stat()
        except OSError as error:
            raise SpoolUnusable(_unusable(directory, error)) from None

    def is_gone(self) -> bool:
        """Whether somebody has deleted or replaced the directory."""
        try:
            return not os.path.samestat(self.path.stat(), self._made)
        except FileNotFoundError:
            return True

    def renew(self) -> None:
        """Makes the directory anew, if it is gone.

        Raises:
            SpoolInUse: another spool has made it meanwhile.
            OSError: it cannot be made.
        """
        if self.is_gone():
            fresh = _locked(self.path)
            os.close(self._lock)
            self._lock, self._made = fresh, self.path.stat()

    def create(self, number: int) -> tuple[int, Path, int]:
        """Makes the file of a new segment, with this number or, if an entry has its name, the next free one.

        Returns:
            The number, the file, and a descriptor to write to it.

        Raises:
            OSError: the disk cannot write.
        """
        while True:
            file = self.path / segment_name(number)
            with contextlib.suppress(FileExistsError):
                return number, file, os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            number += 1

    def segments(self) -> list[tuple[int, Path]]:
        """The segments in the directory, by number. Other entries are named in the log and left alone.

        Raises:
            SpoolUnusable: the directory cannot be read.
        """
        try:
            found = [file for file in self.path.iterdir() if file.name != LOCK]
            segments = {file for file in found if _is_segment(file)}
        except OSError as error:
            raise SpoolUnusable(_unusable(self.path, error)) from None
        for file in set(found) - segments:
            log.warning("an entry in the spool's directory is not the spool's; ignored", extra={"file": str(file)})
        return sorted((int(file.stem), file) for file in segments)

    def open(self) -> int:
        """A descriptor of the directory; syncing it makes created and deleted files durable.

        Raises:
            OSError: the process has no free descriptors.
        """
        return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Unlocks the directory."""
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _locked(directory: Path) -> int:
    """The descriptor of a directory's lock; makes the directory, and that of the state, if they are missing."""
    for folder in (directory.parent, directory):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SpoolInUse(
            f"spool: another agent uses {directory}; stop it, or give this one a state directory of its own"
        ) from None
    return lock


def _is_segment(file: Path) -> bool:
    named = file.suffix == SUFFIX and file.stem.isdecimal() and file.name == segment_name(int(file.stem))
    return named and stat.S_ISREG(file.lstat().st_mode)


def _unusable(directory: Path, error: OSError) -> str:
    return f"spool: cannot use {directory}: {error.strerror}; give the agent a state directory that it can write to"
