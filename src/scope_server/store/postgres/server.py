"""Starts, monitors and stops the postmaster."""

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scope_server.errors import DirectoryInUse, PostgresEnded, PostgresError
from scope_server.store.postgres.ballast import BALLAST_BYTES, Ballast, free_bytes, told_full
from scope_server.store.postgres.cluster import USER, find_binaries, make_cluster, spawn
from scope_server.store.postgres.leftovers import end_leftovers
from scope_server.store.postgres.lock import DirectoryLock
from scope_server.store.postgres.log import LogFile
from scope_server.store.retention.disk import default_limit

ORDERLY_S = 30.0
_IMMEDIATE_S = 5.0
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 107  # sun_path has 108 bytes, the last one is NUL
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_WAL_SEGMENT = 16 << 20
_WAL_SHARE = 8  # of the limit of stored data, into which the write-ahead log counts
_LEAST_WAL, _MOST_WAL = 64 << 20, 1 << 30
_log = logging.getLogger(__name__)

# Committed data survives a crash: synchronous_commit and fsync stay on.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "40",
    "max_locks_per_transaction": "512",  # a query without a time range locks the tables and indexes of all days
    "shared_buffers": "128MB",  # more did not help: the kernel caches the rest
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "15min",
    "autovacuum_max_workers": "2",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "error",  # ADBC begins a transaction again after each COPY: five warnings a second
    # After a crash we start it again: PostgreSQL 18 waits for ever if its checkpointer fails in a recovery of its own.
    "restart_after_crash": "off",
    "jit": "off",  # costs more than it saves for such short queries
}


def _never() -> bool:
    return False


class PrivatePostgres:
    """Starts PostgreSQL on a unix socket and stops it again; a context manager. Blocks: call it from a thread.

    The kernel ends PostgreSQL when the thread that called `start` ends, so it never outlives its owner.

    Args:
        directory: made if missing, with mode 0700.
        settings: more settings of PostgreSQL; they override those chosen here.
        ballast_bytes: space reserved for a start on a full file system; see `Ballast`.
        keep_bytes: the limit of stored data, if it is given; see `Disk`.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        ballast_bytes: int = BALLAST_BYTES,
        keep_bytes: int | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self.log = LogFile(self.directory / "postgres.log")
        self._data = self.directory / "data"
        self._settings, self._keep_bytes = settings or {}, keep_bytes
        self._ballast = Ballast(self.directory / "ballast", ballast_bytes)
        self._lock = DirectoryLock(self.directory)
        self._process: subprocess.Popen[bytes] | None = None

    def conninfo(self, database: str = "scope") -> str:
        """The libpq connection string of one of its databases."""
        return make_conninfo(host=str(self.directory), port=5432, user=USER, dbname=database)

    @property
    def pid(self) -> int | None:
        """The running postmaster's process id."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def status(self) -> int | None:
        """The exit status of the last postmaster, or the negative number of its signal; None while it runs."""
        return self._process.poll() if self._process else None

    def start(self, given_up: Callable[[], bool] = _never) -> None:
        """Creates the cluster if missing, starts it and waits until it answers; its database is `scope`.

        May be called again when the postmaster has ended. After a crash it waits for recovery, however long that takes.

        Args:
            given_up: called while waiting; true ends the start.

        Raises:
            DirectoryInUse: another process runs PostgreSQL here.
            PostgresEnded: it was killed during the start, or `given_up` returned true; another start may succeed.
            PostgresError: the directory, its data or the host prevents it; the message says which.
        """
        if self.pid is not None:
            raise DirectoryInUse(str(self.directory), os.getpid())
        socket = os.fsencode(self.directory / _SOCKET)
        if len(socket) > _SOCKET_PATH_LIMIT:
            raise PostgresError(
                f"{self.directory}: the socket's path would have {len(socket)} bytes, the kernel allows "
                f"{_SOCKET_PATH_LIMIT}; choose a shorter directory"
            )
        binaries = find_binaries()
        try:
            self._own_directory()
            if not self._lock.held:
                self._lock.take()
            try:
                end_leftovers(self._data, given_up)
                make_cluster(binaries, self._data, given_up)
                self._run(binaries, given_up)
                self.ensure_database("scope")
            except BaseException:
                self.stop(immediate=True)
                raise
        except OSError as error:
            raise PostgresError(f"{error.filename or self.directory}: {error.strerror}") from error
        self.upkeep()
        _log.info("PostgreSQL started", extra={"directory": str(self.directory), "pid": self.pid})

    def upkeep(self) -> None:
        """Maintains log and ballast; to be called every few seconds while PostgreSQL runs."""
        self.log.rotate()
        self._ballast.keep()

    def stop(self, immediate: bool = False, hurried: Callable[[], bool] = _never) -> None:
        """Stops PostgreSQL and releases the directory; open transactions are rolled back.

        Args:
            immediate: stop without a checkpoint; the next start recovers.
            hurried: called while waiting; true continues as with `immediate`.
        """
        try:
            if self._process and self._process.poll() is None:
                self._end(self._process, immediate, hurried)
        finally:
            self._lock.release()

    def _end(self, process: subprocess.Popen[bytes], immediate: bool, hurried: Callable[[], bool]) -> None:
        if not immediate:
            process.send_signal(signal.SIGINT)
            if _ended(process, ORDERLY_S, hurried):
                return
        process.send_signal(signal.SIGQUIT)
        if _ended(process, _IMMEDIATE_S, _never):
            return
        _log.error("PostgreSQL does not end and is killed", extra={"pid": process.pid})
        process.kill()
        process.wait()
        end_leftovers(self._data, _never)

    def ensure_database(self, name: str) -> None:
        """Creates the database unless it exists.

        Raises:
            PostgresError: the database cannot be created.
        """
        try:
            with psycopg.connect(self.conninfo("postgres"), autocommit=True, connect_timeout=10) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.errors.DiskFull:
            raise PostgresError(told_full(self.directory)) from None
        except psycopg.OperationalError as error:
            raise PostgresEnded(f"PostgreSQL did not answer: {str(error).strip().splitlines()[0]}") from error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _own_directory(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.directory.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PostgresError(
                f"{self.directory} must belong to user {os.geteuid()} with mode 0700, since it guards the database; "
                f"it belongs to {found.st_uid} with mode {found.st_mode & 0o7777:04o}"
            )

    def _run(self, binaries: Path, given_up: Callable[[], bool]) -> None:
        quoted = str(self.directory).replace('"', '""')
        own = {"unix_socket_directories": f'"{quoted}"', "max_wal_size": f"{self._most_wal() >> 20}MB"}
        settings = _SETTINGS | own | self._settings
        command: list[str | Path] = [binaries / "postgres", "-D", self._data]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        if free_bytes(self.directory) < _WAL_SEGMENT:
            self._ballast.drop()  # even if it starts, there may be no space for what a connection writes
        while not self._started(command, given_up):
            said = self.log.said()
            if (
                any(reason in line for reason in _NO_SPACE for line in said)
                or free_bytes(self.directory) < _WAL_SEGMENT
            ):
                if self._ballast.drop():
                    continue
                raise PostgresError(told_full(self.directory))
            fatal = [line for line in said if "FATAL" in line or "unshare" in line or "setpriv" in line]
            if fatal:
                raise PostgresError(f"PostgreSQL in {self.directory} says: {fatal[-1].strip()}; see {self.log.path}")
            last = said[-1].strip() if said else "no message"
            raise PostgresEnded(f"PostgreSQL ended while it was starting: {last}; see {self.log.path}")

    def _most_wal(self) -> int:
        limit = self._keep_bytes or default_limit(shutil.disk_usage(self.directory).total)
        return max(_LEAST_WAL, min(_MOST_WAL, limit // _WAL_SHARE))

    def _started(self, command: list[str | Path], given_up: Callable[[], bool]) -> bool:
        with self.log.opened() as output:
            self._process = spawn(command, "INT", output, self.directory)
        while not self._answers():
            if self._process.poll() is not None:
                return False
            if given_up():
                raise PostgresEnded("given up while PostgreSQL was starting")
            time.sleep(0.01)
        return True

    def _answers(self) -> bool:
        # The last line of postmaster.pid is its state, in a field padded with blanks.
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def _ended(process: subprocess.Popen[bytes], seconds: float, hurried: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while process.poll() is None:
        if hurried() or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
