"""The database's disk: its size, free space, and the minimum of free space (floor)."""

import logging
import shutil
from pathlib import Path
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

_LEAST_FLOOR = 512 << 20  # space for running writes and their WAL
_FLOOR_SHARE = 0.02
_MOST_FLOOR_SHARE = 0.25  # for small disks
_MOST_KEPT = 20 << 30
_KEPT_SHARE = 0.2
_PID_FILE = "postmaster.pid"
_log = logging.getLogger(__name__)


class Disk:
    """The file system of the database's directory, if it is visible to this process. For any thread.

    Args:
        floor_bytes: bytes that must stay free; None: 512 MiB or 2 % of the file system, whichever is more.
        keep_bytes: limit for rows, related data and the write-ahead log; None: 20 % of the file system, at most 20 GiB.
    """

    def __init__(self, floor_bytes: int | None = None, keep_bytes: int | None = None) -> None:
        self._floor, self._keep = floor_bytes, keep_bytes
        self._directory: Path | None = None
        self._looked = False

    def look(self, connection: Connection) -> None:
        """Finds the database's directory; before that, `shortage` reports the disk as unknown.

        Raises:
            psycopg.OperationalError: the database went away.
        """
        found = _directory(connection)
        if not self._looked or found != self._directory:
            _log.info("database's disk", extra={"directory": str(found or "not visible from here")})
        self._directory, self._looked = found, True

    @property
    def free_bytes(self) -> int | None:
        """Bytes that PostgreSQL can still write; None if the disk is not visible."""
        usage = self._usage()
        return usage and usage[1]

    @property
    def floor_bytes(self) -> int:
        """Bytes that must stay free; 0 if the disk is not visible."""
        usage = self._usage()
        if usage is None:
            return 0
        if self._floor is not None:
            return self._floor
        return min(max(_LEAST_FLOOR, int(usage[0] * _FLOOR_SHARE)), int(usage[0] * _MOST_FLOOR_SHARE))

    @property
    def limit_bytes(self) -> int:
        """Maximum bytes of stored data."""
        if self._keep is not None:
            return self._keep
        usage = self._usage()
        return default_limit(usage[0]) if usage else _MOST_KEPT

    @property
    def short(self) -> bool:
        """Whether free space is below the floor."""
        free = self.free_bytes
        return free is not None and free < self.floor_bytes

    def shortage(self) -> str:
        """Why nothing may be written now; empty if writing is allowed."""
        if not self._looked:
            return "the database's disk was not checked yet"
        free, floor = self.free_bytes, self.floor_bytes
        if free is None or free >= floor:
            return ""
        return f"only {free >> 20} MiB are free on the database's disk (floor {floor >> 20} MiB)"

    def _usage(self) -> tuple[int, int] | None:
        if self._directory is None:
            return None
        try:
            usage = shutil.disk_usage(self._directory)
        except OSError:  # it existed before; the next check will find the reason
            return None
        return usage.total, usage.free


def default_limit(total_bytes: int) -> int:
    """The limit of stored data on a file system of this size."""
    return min(_MOST_KEPT, int(total_bytes * _KEPT_SHARE))


def _directory(connection: Connection) -> Path | None:
    # The path may belong to another machine or container: it is ours if the same file is in it.
    try:
        row = connection.execute(
            "SELECT current_setting('data_directory'), pg_read_file(%s, 0, 1000, true)", [_PID_FILE]
        ).fetchone()
        directory, told = row or (None, None)
        if told and (Path(directory) / _PID_FILE).read_text() == told:
            return Path(directory)
    except (psycopg.ProgrammingError, OSError):  # ProgrammingError: no permission to read it
        pass
    return None
