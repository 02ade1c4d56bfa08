"""Processes of a PostgreSQL whose owner is gone."""

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
    """Ends what an earlier run left in a data directory: a postmaster in order, backends without one by force.

    Call it as the owner of the directory's lock. Lock files that nobody holds any more are removed: PostgreSQL would
    take the process that has such a number by now for their owner.

    Args:
        data: the data directory.
        given_up: asked while waiting; true ends the wait.

    Raises:
        PostgresEnded: some do not end, or the wait was given up.
    """
    pidfile = data / "postmaster.pid"
    postmaster = _pid_in(pidfile)
    left = processes_in(data)
    if postmaster in left:
        _log.warning("ending the PostgreSQL that an earlier run left behind", extra={"pid": postmaster})
        _send(signal.SIGINT, [postmaster])
        left = _wait(data, ORDERLY_S, given_up)
    if left:
        _log.warning("killing processes of a PostgreSQL that is gone", extra={"pids": sorted(left)})
        _send(signal.SIGKILL, left)
        left = _wait(data, FORCED_S, given_up)
    if left:
        raise PostgresEnded(f"processes of an earlier PostgreSQL in {data} do not end: {sorted(left)}")
    for stale in (pidfile, data.parent / ".s.PGSQL.5432.lock"):
        if stale.exists():
            _log.info("removing a stale lock file", extra={"path": str(stale)})
            stale.unlink(missing_ok=True)


def processes_in(data: Path) -> set[int]:
    """The PostgreSQL processes that work in a data directory, by pid: each has it as its working directory."""
    place = data.resolve()
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it ended meanwhile, or is another user's
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
