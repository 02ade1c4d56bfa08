"""The private PostgreSQL: what may be in its way when it starts, and what a crash leaves."""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from scope_server.errors import DirectoryInUse, PostgresError
from scope_server.store.postgres import PrivatePostgres


@pytest.fixture
def directory() -> Iterator[Path]:
    """A place whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        yield Path(folder) / "pg"


def test_a_killed_postmaster_is_followed_by_another(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once its backends, which live on while they are busy, have noticed. What was committed is there, and no more."""
    first = PrivatePostgres(directory)
    first.start()
    with psycopg.connect(first.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, 101)")
    busy = psycopg.connect(first.conninfo())
    busy.execute("INSERT INTO kept VALUES (102)")
    working = threading.Thread(target=_work, args=[busy])
    working.start()
    time.sleep(0.3)
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    first.stop()
    with PrivatePostgres(directory) as second, psycopg.connect(second.conninfo()) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (101,)
    working.join()
    assert "waiting for the backends" in caplog.text


def _work(connection: psycopg.Connection) -> None:
    with contextlib.suppress(psycopg.OperationalError):  # its server is gone when it has counted
        connection.execute("SELECT count(*) FROM generate_series(1, 20000000)")
    connection.close()


def test_an_orphan_is_ended_first(directory: Path) -> None:
    """A postmaster whose owner was killed is ended in order, and the data is taken over."""
    orphan = PrivatePostgres(directory)
    orphan.start()
    assert orphan.pid and orphan._lock is not None
    os.close(orphan._lock)  # as the kernel does for a process that is killed
    orphan._lock = None
    with PrivatePostgres(directory) as heir:
        assert heir.pid != orphan.pid
    assert orphan._process and orphan._process.wait(10) == 0


def test_a_directory_in_use_is_refused(directory: Path) -> None:
    """The error names who runs it."""
    with PrivatePostgres(directory), pytest.raises(DirectoryInUse, match=str(os.getpid())):
        PrivatePostgres(directory).start()


def test_a_directory_that_others_can_enter_is_refused(directory: Path) -> None:
    """The directory's mode is the access control, so it is not loosened silently, nor changed."""
    directory.mkdir(mode=0o755)
    with pytest.raises(PostgresError, match="with mode 0700, since it guards the database"):
        PrivatePostgres(directory).start()
    assert directory.stat().st_mode & 0o777 == 0o755


def test_data_of_another_version_is_left_alone(directory: Path) -> None:
    """It says which made it and what to do."""
    (directory / "data").mkdir(parents=True)
    directory.chmod(0o700)
    (directory / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(PostgresError, match="was made by PostgreSQL 15, this is 18; move it away"):
        PrivatePostgres(directory).start()


def test_a_path_too_long_for_a_socket_is_told(directory: Path) -> None:
    """Before anything is made."""
    with pytest.raises(PostgresError, match="choose a shorter directory"):
        PrivatePostgres(directory / ("x" * 100)).start()
    assert not directory.exists()
