"""The cache of fetched debug files, which all clients of debuginfod share: debuginfod_find_debuginfo(3).

`BUILD-ID/debuginfo` is a file; an empty one says that no server has it. Files with numbers govern the cache.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_NAME = "debuginfo"
# Names of files with numbers of seconds, and what holds without them.
_CLEANED = ("cache_clean_interval_s", 86_400)
_UNUSED = ("max_unused_age_s", 604_800)
_MISSING = ("cache_miss_s", 600)


class Cache:
    """The cache in a directory. For one thread; other processes may use it at the same time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, build_id: str) -> Path:
        """Where the file of a build lies, if it was fetched."""
        return self._folder / build_id / _NAME

    def says_missing(self, build_id: str) -> bool:
        """Whether it was noted a short while ago that no server has the file."""
        with suppress(OSError):
            found = self.path(build_id).stat()
            return not found.st_size and time.time() - found.st_mtime < self._seconds(*_MISSING)
        return False

    def note_missing(self, build_id: str) -> None:
        """Notes that no server has the file.

        Raises:
            OSError: the cache cannot be written.
        """
        with self.new_file(build_id):
            pass

    @contextmanager
    def new_file(self, build_id: str) -> Iterator[IO[bytes]]:
        """A file that takes the place of the one of a build, unless the block raises.

        Raises:
            OSError: the cache cannot be written.
        """
        path = self.path(build_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{_NAME}.", delete=False) as file:
            try:
                yield file
                file.flush()
                Path(file.name).rename(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    def room(self) -> int:
        """How large a file may be so that others, too, have space on this disk, in bytes.

        Raises:
            OSError: the cache cannot be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shutil.disk_usage(self._folder).free // 2

    def clean(self) -> None:
        """Deletes files that were not used for a long time, unless this was done a short while ago."""
        name, default = _CLEANED
        now, done = time.time(), self._folder / name
        with suppress(OSError):
            if now - done.stat().st_mtime < self._seconds(name, default):
                return
        with suppress(OSError):
            if not done.exists():
                done.write_text(str(default))
            os.utime(done)
            for path in self._folder.glob(f"*/{_NAME}*"):
                if now - path.stat().st_atime > self._seconds(*_UNUSED):
                    path.unlink()
            for folder in self._folder.iterdir():
                with suppress(OSError):  # others have files
                    folder.rmdir()

    def _seconds(self, name: str, default: int) -> int:
        with suppress(OSError, ValueError):
            return int((self._folder / name).read_text())
        return default
