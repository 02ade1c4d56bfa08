"""A primary and a streaming replica of it, both real, which tests hold back, kill and stop."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from scope_server.store.postgres import PrivatePostgres
from scope_server.store.postgres.cluster import find_binaries
from scope_server.store.postgres.leftovers import processes_in

_QUICK = {"fsync": "off", "max_wal_size": "128MB"}
_SENDS = {"wal_level": "replica", "max_wal_senders": "4", "wal_keep_size": "64MB"}
# A replica that lost its primary tries again at once, instead of after 5 s.
_RECEIVES = {"hot_standby": "on", "wal_retrieve_retry_interval": "100ms"}


def primary(directory: Path) -> PrivatePostgres:
    """A PostgreSQL that replicas may follow."""
    return PrivatePostgres(directory, _QUICK | _SENDS)


class Standby:
    """A streaming replica in a directory; a context manager. All processes of it are started by the same thread."""

    def __init__(self, of: PrivatePostgres, directory: Path) -> None:
        self._data = directory / "data"
        directory.mkdir(mode=0o700)
        copy: list[str | Path] = [find_binaries() / "pg_basebackup", "--dbname", of.conninfo(), "--pgdata", self._data]
        subprocess.run([*copy, "--checkpoint=fast", "--write-recovery-conf"], check=True, capture_output=True)
        self._postgres = PrivatePostgres(directory, _QUICK | _SENDS | _RECEIVES)
        self._primary = of

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.resume()
        self.kill()

    @property
    def conninfo(self) -> str:
        """The libpq connection string of the database `scope`."""
        return self._postgres.conninfo()

    def start(self) -> None:
        """Starts it, or starts it again."""
        self._postgres.start()

    def kill(self) -> None:
        """Ends it at once."""
        self._postgres.stop(immediate=True)

    def pause(self) -> None:
        """Stops all its processes: it takes connections, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets them go on."""
        self._signal(signal.SIGCONT)

    def hold(self) -> None:
        """From now on it replays nothing more."""
        self._run("SELECT pg_wal_replay_pause()")
        while self._run("SELECT pg_get_wal_replay_pause_state()") != "paused":
            pass

    def release(self) -> None:
        """It replays again."""
        self._run("SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        """It becomes a primary of its own."""
        self._run("SELECT pg_promote()")

    def catch_up(self) -> None:
        """Waits until it has all that the primary has now."""
        with psycopg.connect(self._primary.conninfo(), autocommit=True) as connection:
            written = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        assert written
        while not self._run("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written[0]):
            pass

    def _signal(self, number: signal.Signals) -> None:
        for pid in processes_in(self._data):
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(pid, number)

    def _run(self, statement: str, *values: Any) -> Any:
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            row = connection.execute(statement.encode(), values or None).fetchone()
        return row and row[0]
