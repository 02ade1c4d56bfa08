"""Waits for the daemons of a killed `scope up`. The kernel tells them to end, but this takes seconds."""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from scope_cli.errors import CommandError, Interrupted
from scope_cli.flag import Flag

ORDERLY_S = 15.0
_FORCED_S = 5.0
_MARK = "SCOPE_UP"


def mark(state: Path) -> dict[str, str]:
    """The environment variable that marks the daemons of a state directory."""
    return {_MARK: str(state.resolve())}


def end_left_behind(state: Path, say: Callable[[str], None], stop: Flag) -> None:
    """Waits until daemons left in a state directory have ended; kills them if necessary.

    The caller must own the directory, and must not have started its own daemons yet.

    Raises:
        CommandError: they do not end.
        Interrupted: `stop` was set before they had ended.
    """
    left = _left_in(state)
    if not left:
        return
    say(f"waiting for processes of an earlier `scope up`: {_listed(left)}")
    for number, seconds in ((signal.SIGTERM, ORDERLY_S), (signal.SIGKILL, _FORCED_S)):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            left = _left_in(state)
            if not left:
                return
            if stop.wait(0.1):
                raise Interrupted
    raise CommandError(f"processes of an earlier `scope up` do not end: {_listed(left)}")


def _left_in(state: Path) -> list[int]:
    wanted = f"{_MARK}={state.resolve()}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # the process ended meanwhile, or belongs to another user
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def _listed(pids: Collection[int]) -> str:
    return ", ".join(f"process {pid}" for pid in pids)
