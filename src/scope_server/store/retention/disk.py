"""The disk that the database lies on: how large it is, what is free, and how much has to stay so."""

import logging
import shutil
from pathlib import Path
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

_LEAST_FLOOR = 512 << 20  # what writers may have under way, and the WAL of it
_FLOOR_SHARE = 0.02
_MOST_FLOOR_SHARE = 0.25  # on a disk so small that the least would be most of it
_MOST_KEPT = 20 << 30
_KEPT_SHARE = 0.2
_PID_FILE = "postmaster.pid"
_log = logging.getLogger(__name__)


class Disk:
    """The file system of the database's directory, if it can be seen from here. For any thread.

    Args:
        floor_bytes: so many are to stay free; None: 512 MiB or 2 % of the file system, whichever is more.
        keep_bytes: of rows and all that belongs to them; None: 20 % of the file system, at most 20 GiB.
    """

    def __init__(self, floor_bytes: int | None = None, keep_bytes: int | None = None) -> None:
        self._floor, self._keep = floor_bytes, keep_bytes
        self._directory: Path | None = None
        self._looked = False

    def look(self, connection: Connection) -> None:
        """Finds the database's directory; until then, `shortage` says that it is not known.

        Raises:
            psycopg.OperationalError: the database went away.
        """
        found = _directory(connection)
        if not self._looked or found != self._directory:
            _log.info("database's disk", extra={"directory": str(found or "cannot be seen from here")})
        self._directory, self._looked = found, True

    @property
    def free_bytes(self) -> int | None:
        """What PostgreSQL may still write; None if the disk cannot be seen from here."""
        usage = self._usage()
        return usage and usage[1]

    @property
    def floor_bytes(self) -> int:
        """So many are to stay free; 0 if the disk cannot be seen from here."""
        usage = self._usage()
        if usage is None:
            return 0
        if self._floor is not None:
            return self._floor
        return min(max(_LEAST_FLOOR, int(usage[0] * _FLOOR_SHARE)), int(usage[0] * _MOST_FLOOR_SHARE))

    @property
    def limit_bytes(self) -> int:
        """So many bytes are kept."""
        if self._keep is not None:
            return self._keep
        usage = self._usage()
        return min(_MOST_KEPT, int(usage[0] * _KEPT_SHARE)) if usage else _MOST_KEPT

    @property
    def short(self) -> bool:
        """Whether less is free than has to stay so."""
        free = self.free_bytes
        return free is not None and free < self.floor_bytes

    def shortage(self) -> str:
        """Why nothing is to be written now, for people; or nothing."""
        if not self._looked:
            return "the database's disk was not looked at yet"
        free, floor = self.free_bytes, self.floor_bytes
        if free is None or free >= floor:
            return ""
        return f"only {free >> 20} MiB are free on the database's disk (floor {floor >> 20} MiB)"

    def _usage(self) -> tuple[int, int] | None:
        if self._directory is None:
            return None
        try:
            usage = shutil.disk_usage(self._directory)
        except OSError:  # it was there: the next look will tell
            return None
        return usage.total, usage.free


def _directory(connection: Connection) -> Path | None:
    # The path may be that of another machine or container: it is ours if the same file lies in it.
    try:
        row = connection.execute(
            "SELECT current_setting('data_directory'), pg_read_file(%s, 0, 1000, true)", [_PID_FILE]
        ).fetchone()
        directory, told = row or (None, None)
        if told and (Path(directory) / _PID_FILE).read_text() == told:
            return Path(directory)
    except (psycopg.ProgrammingError, OSError):  # the former: it is not for us to know
        pass
    return None
