"""Ends processes of a PostgreSQL whose owner has died."""

import logging
import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from scope_server.errors import PostgresEnded

ORDERLY_S = 30.0
FORCED_S = 10.0
_log = logging.getLogger(__name__)


def end_leftovers(data: Path, given_up: Callable[[], bool]) -> None:
    """Ends PostgreSQL processes of an earlier run in a data directory: a postmaster cleanly, other backends by force.

    The caller must hold the directory's lock. Stale lock files are removed: otherwise PostgreSQL would take another
    process with the same pid for their owner.

    Args:
        data: the data directory.
        given_up: called while waiting; true ends the wait.

    Raises:
        PostgresEnded: some processes do not end, or the wait was given up.
    """
    pidfile = data / "postmaster.pid"
    postmaster = _pid_in(pidfile)
    left = processes_in(data)
    if postmaster in left:
        _log.warning("ending the PostgreSQL of an earlier run", extra={"pid": postmaster})
        _send(signal.SIGINT, [postmaster])
        left = _wait(data, ORDERLY_S, given_up)
    if left:
        _log.warning("killing processes of a dead PostgreSQL", extra={"pids": sorted(left)})
        _send(signal.SIGKILL, left)
        left = _wait(data, FORCED_S, given_up)
    if left:
        raise PostgresEnded(f"processes of an earlier PostgreSQL in {data} do not end: {sorted(left)}")
    for stale in (pidfile, data.parent / ".s.PGSQL.5432.lock"):
        if stale.exists():
            _log.info("removing a stale lock file", extra={"path": str(stale)})
            stale.unlink(missing_ok=True)


def processes_in(data: Path) -> set[int]:
    """Pids of the PostgreSQL processes of a data directory, which is their working directory."""
    place = data.resolve()
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # the process ended meanwhile, or belongs to another user
                program = (folder / "exe").readlink().name.removesuffix(" (deleted)")
                if program == "postgres" and (folder / "cwd").readlink() == place:
                    found.add(int(folder.name))
    return found


def _pid_in(pidfile: Path) -> int:
    try:
        return int(pidfile.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):  # none, or damaged: a full disk leaves an empty one
        return 0


def _send(number: signal.Signals, pids: Collection[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(data: Path, seconds: float, given_up: Callable[[], bool]) -> set[int]:
    end = time.monotonic() + seconds
    while left := processes_in(data):
        if given_up():
            raise PostgresEnded("given up while an earlier PostgreSQL was ending")
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return left
