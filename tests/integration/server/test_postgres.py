"""The private PostgreSQL: problems at start, and recovery after a crash."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from scope_server.errors import DirectoryInUse, PostgresEnded, PostgresError
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.postgres.leftovers import processes_in
from scope_server.store.postgres.log import LogFile

MIB = 1 << 20
ROWS = 101


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        yield Path(folder) / "pg"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A separate file system of 256 MiB."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def _until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def _fill(postgres: PrivatePostgres) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, %s::integer)", [ROWS])


def _kept(postgres: PrivatePostgres) -> int:
    with psycopg.connect(postgres.conninfo()) as connection:
        (count,) = connection.execute("SELECT count(*) FROM kept").fetchone() or (0,)
        return int(count)


def _killed(postgres: PrivatePostgres) -> None:
    assert postgres.pid
    os.kill(postgres.pid, signal.SIGKILL)
    _until(lambda: postgres.pid is None)


def test_a_killed_postmaster_is_followed_by_another(directory: Path) -> None:
    """After a killed postmaster, a new one has exactly the committed rows, even if an old backend is still busy."""
    with PrivatePostgres(directory) as postgres:
        _fill(postgres)
        busy = psycopg.connect(postgres.conninfo())
        busy.execute("INSERT INTO kept VALUES (102)")
        working = threading.Thread(target=_work, args=[busy])
        working.start()
        _until(lambda: _is_busy(postgres, busy.info.backend_pid))
        _killed(postgres)
        assert postgres.status == -signal.SIGKILL
        postgres.start()
        assert _kept(postgres) == ROWS
        working.join()


def _work(connection: psycopg.Connection) -> None:
    with contextlib.suppress(psycopg.OperationalError):  # the server is killed during the query
        connection.execute("SELECT count(*) FROM generate_series(1, 2000000000)")
    connection.close()


def _is_busy(postgres: PrivatePostgres, pid: int) -> bool:
    with psycopg.connect(postgres.conninfo()) as connection:
        query = "SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        return connection.execute(query, [pid]).fetchone() is not None


def test_a_killed_backend_is_an_end(directory: Path) -> None:
    """After a killed backend, the postmaster ends; the next start recovers, with all committed rows."""
    with PrivatePostgres(directory) as postgres:
        _fill(postgres)
        with psycopg.connect(postgres.conninfo()) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
        _until(lambda: postgres.pid is None)
        postgres.start()
        assert _kept(postgres) == ROWS


def test_nothing_outlives_its_owner(directory: Path) -> None:
    """PostgreSQL ends if its owner is killed, and the next owner can start it again."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdin and owner.stdout
    assert owner.stdout.readline() == b"started\n"
    assert processes_in(directory / "data")
    owner.kill()
    owner.communicate()
    _until(lambda: not processes_in(directory / "data"))
    with PrivatePostgres(directory) as heir:
        heir.ensure_database("another")


_OWNER = """
import sys
from pathlib import Path
from scope_server.store.postgres import PrivatePostgres
with PrivatePostgres(Path(sys.argv[1])):
    print("started", flush=True)
    sys.stdin.read()
"""


def test_an_orphan_is_ended_first(directory: Path) -> None:
    """A postmaster that outlived its owner is shut down cleanly, and a new one starts with the data."""
    orphan = PrivatePostgres(directory)
    orphan.start()
    before = orphan.pid
    orphan._lock.release()  # as the kernel does for a process that is killed
    with PrivatePostgres(directory) as heir:
        assert heir.pid != before
        assert orphan.status == 0


@pytest.mark.parametrize("left", ["", "0\n", "{this}\n{data}\n", "not a number"])
def test_a_stale_pid_file_is_no_obstacle(directory: Path, left: str) -> None:
    """A stale pid file does not prevent a start, even if it is empty (full disk) or has the pid of a live process."""
    with PrivatePostgres(directory) as postgres:
        _fill(postgres)
    data = directory / "data"
    (data / "postmaster.pid").write_text(left.format(this=os.getpid(), data=data))
    (directory / ".s.PGSQL.5432.lock").write_text(f"{os.getpid()}\n{data}\n")
    with PrivatePostgres(directory) as postgres:
        assert _kept(postgres) == ROWS


def test_shared_memory_of_killed_ones_does_not_pile_up(directory: Path) -> None:
    """Each start removes the shared memory of the killed postmaster before it."""
    used: set[str] = set()
    with PrivatePostgres(directory) as postgres:
        for _ in range(3):
            used |= _shared_memory(postgres)
            _killed(postgres)
            postgres.start()
    assert len(used) >= 6  # each postmaster has a segment of both kinds
    there = {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()}
    there |= {str(file) for file in Path("/dev/shm").iterdir()}
    assert not used & there


def _shared_memory(postgres: PrivatePostgres) -> set[str]:
    """Ids of System V segments, paths of POSIX ones."""
    found = set()
    for line in Path(f"/proc/{postgres.pid}/maps").read_text().splitlines():
        *_, inode, path = line.split(maxsplit=5)
        if path.startswith("/SYSV"):
            found.add(inode)
        elif path.startswith("/dev/shm/"):
            found.add(path)
    return found


def test_a_full_disk_ends_no_database(small_disk: Path) -> None:
    """After a crash on a full disk, the ballast makes room for recovery; upkeep recreates it once there is space."""
    postgres = PrivatePostgres(small_disk / "pg", ballast_bytes=48 * MIB)
    ballast = small_disk / "pg" / "ballast"
    with postgres:
        _fill(postgres)
        assert ballast.stat().st_blocks * 512 >= 48 * MIB
        rest = _fill_up(small_disk)
        with psycopg.connect(postgres.conninfo(), autocommit=True) as connection, pytest.raises(psycopg.Error):
            connection.execute("CREATE TABLE more AS SELECT generate_series(1, 100000000) AS n")
        if postgres.pid is not None:
            _killed(postgres)
        postgres.start()
        assert _kept(postgres) == ROWS
        assert not ballast.exists()
        rest.unlink()
        postgres.upkeep()
        assert ballast.exists()


def test_recovery_on_an_almost_full_disk_comes_to_an_end(small_disk: Path) -> None:
    """Whatever PostgreSQL can still write before there is no space, recovery gets the ballast and does not wait."""
    postgres = PrivatePostgres(small_disk / "pg", ballast_bytes=48 * MIB)
    with postgres:
        _fill(postgres)
        for left in range(0, 40_960, 4096):
            postgres.stop(immediate=True)
            rest = _fill_up(small_disk)
            os.truncate(rest, rest.stat().st_size - left)
            end = time.monotonic() + 120
            postgres.start(lambda end=end: time.monotonic() > end)
            assert _kept(postgres) == ROWS
            rest.unlink()
            postgres.upkeep()


def test_without_ballast_a_full_disk_is_told(small_disk: Path) -> None:
    """Without ballast, a start on a full disk fails, and the error says what to do; with space, the start works."""
    postgres = PrivatePostgres(small_disk / "pg", ballast_bytes=16 * MIB)
    with postgres:
        _fill(postgres)
        _killed(postgres)
        (small_disk / "pg" / "ballast").unlink()
        rest = _fill_up(small_disk)
        with pytest.raises(PostgresError, match=r"no space for PostgreSQL in .*: free some"):
            postgres.start()
        rest.unlink()
        postgres.start()
        assert _kept(postgres) == ROWS


def _fill_up(disk: Path) -> Path:
    rest = disk / "rest"
    with rest.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(MIB))
    with rest.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return rest


def test_no_room_for_a_first_start_is_told(small_disk: Path) -> None:
    """If a first start has no space, the error says so, and no incomplete data prevents a later start."""
    rest = _fill_up(small_disk)
    with pytest.raises(PostgresError, match=r"no space for PostgreSQL in .*: free some"):
        PrivatePostgres(small_disk / "pg").start()
    rest.unlink()
    with PrivatePostgres(small_disk / "pg") as postgres:
        _fill(postgres)


def test_a_start_can_be_given_up(directory: Path) -> None:
    """A start can be cancelled while the cluster is created or starts; no process is left, and the next start works."""
    asked = 0

    def at_the_third() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    with pytest.raises(PostgresEnded, match="given up while the database was created"):
        PrivatePostgres(directory).start(at_the_third)
    assert not (directory / "data").exists()
    with PrivatePostgres(directory):
        pass
    with pytest.raises(PostgresEnded, match="given up while PostgreSQL was starting"):
        PrivatePostgres(directory).start(lambda: True)
    assert not processes_in(directory / "data")
    with PrivatePostgres(directory):
        pass


def test_a_stop_is_certain(directory: Path) -> None:
    """A stop kills a postmaster that does not react (here because of SIGSTOP), with all its processes."""
    postgres = PrivatePostgres(directory)
    postgres.start()
    assert postgres.pid
    os.kill(postgres.pid, signal.SIGSTOP)
    postgres.stop(hurried=lambda: True)
    assert not processes_in(directory / "data")
    with PrivatePostgres(directory):
        pass


def test_a_log_has_an_end(tmp_path: Path) -> None:
    """A log beyond its limit is copied to the older file and emptied; a process that has it open continues in it."""
    log = LogFile(tmp_path / "postgres.log", limit=1009)
    with log.opened() as file:
        file.write(b"old\n" * 250)
        file.flush()
        log.rotate()
        assert log.said()[-1] == "old"
        file.write(b"old\n" * 5)
        file.flush()
        log.rotate()
        file.write(b"new\n")
    assert log.said() == ["new"]
    assert (tmp_path / "postgres.log").read_bytes() == b"new\n"
    assert (tmp_path / "postgres.log.1").stat().st_size == 1020


def test_a_log_is_private(tmp_path: Path) -> None:
    """Only its owner can read a log, also one that an earlier version made, and its older file."""
    path = tmp_path / "postgres.log"
    path.write_bytes(b"old\n" * 250)
    path.chmod(0o644)
    with LogFile(path).opened():
        pass
    LogFile(path, limit=1).rotate()
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "postgres.log": 0o600,
        "postgres.log.1": 0o600,
    }


def test_a_directory_in_use_is_refused(directory: Path) -> None:
    """A directory in use is refused; the error has the pid of the process that uses it."""
    with PrivatePostgres(directory), pytest.raises(DirectoryInUse, match=str(os.getpid())):
        PrivatePostgres(directory).start()


def test_a_directory_that_others_can_enter_is_refused(directory: Path) -> None:
    """A directory that others can enter is refused and left unchanged, because its mode is the access control."""
    directory.mkdir(mode=0o755)
    with pytest.raises(PostgresError, match="with mode 0700, since it guards the database"):
        PrivatePostgres(directory).start()
    assert directory.stat().st_mode & 0o777 == 0o755


def test_data_of_another_version_is_left_alone(directory: Path) -> None:
    """Data of another PostgreSQL version is refused; the error names the version and says what to do."""
    (directory / "data").mkdir(parents=True)
    directory.chmod(0o700)
    (directory / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(PostgresError, match="was made by PostgreSQL 15, this is 18; move it away"):
        PrivatePostgres(directory).start()


def test_a_path_too_long_for_a_socket_is_told(directory: Path) -> None:
    """A path too long for a socket is refused before the directory is created."""
    with pytest.raises(PostgresError, match="choose a shorter directory"):
        PrivatePostgres(directory / ("x" * 100)).start()
    assert not directory.exists()


def test_the_environment_changes_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's environment variables change neither the socket nor the database."""
    monkeypatch.setenv("PGPORT", "6543")
    monkeypatch.setenv("PGDATABASE", "elsewhere")
    with PrivatePostgres(directory) as postgres:
        _fill(postgres)
        assert (directory / ".s.PGSQL.5432").exists()
