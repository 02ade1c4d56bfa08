"""The directory of a spool: one owner at a time, and the segments in it."""

import contextlib
import fcntl
import os
from pathlib import Path

from scope_agentd.errors import SpoolInUse, SpoolUnusable
from scope_agentd.pipeline.spool.layout import SUFFIX, segment_name

LOCK = "lock"


class Home:
    """A spool's directory, made if it is not there (mode 0700), locked until `close` or the process's end.

    Raises:
        SpoolInUse: another spool, of this process or another one, has it open.
        SpoolUnusable: it cannot be made or written to.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolUnusable(_unusable(directory, error)) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SpoolInUse(
                f"spool: another agent uses {directory}; stop it, or give this one a state directory of its own"
            ) from None

    def file(self, number: int) -> Path:
        """Where a segment lies, or is to lie."""
        return self.path / segment_name(number)

    def segments(self) -> list[tuple[int, Path]]:
        """The segments that are here, by number.

        Raises:
            SpoolUnusable: the directory cannot be read.
        """
        try:
            found = [file for file in self.path.iterdir() if file.name.endswith(SUFFIX)]
        except OSError as error:
            raise SpoolUnusable(_unusable(self.path, error)) from None
        return sorted((int(file.stem), file) for file in found if file.stem.isdecimal())

    def open(self) -> int:
        """A descriptor of the directory: to sync it makes durable which files are here.

        Raises:
            OSError: there are no descriptors left.
        """
        return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Gives the directory to whoever wants it next."""
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _unusable(directory: Path, error: OSError) -> str:
    return f"spool: cannot use {directory}: {error.strerror}; give the agent a state directory that it can write to"
