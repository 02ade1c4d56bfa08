"""Supervisors, one per part, which start a part again when it ends; and the interface of parts."""

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scope_cli.flag import Flag

UPKEEP_S = 5.0
_log = logging.getLogger(__name__)


class PartEnded(Exception):
    """A part ended, or did not start.

    Attributes:
        how: such as "killed by signal 9".
        said: the last line of output, or why it did not start; may be empty.
        refused: it ended by itself, for a reason that another start would not change.
    """

    def __init__(self, how: str, said: str = "", refused: bool = False) -> None:
        super().__init__(f"{how}: {said}" if said else how)
        self.how, self.said, self.refused = how, said, refused


class Part(Protocol):
    """A process that `scope up` runs. All methods are called by one thread, which outlives the process."""

    name: str

    @property
    def pid(self) -> int | None:
        """The process's pid; None if it does not run."""

    def start(self, stop: Flag) -> None:
        """Starts the process; returns when it is ready.

        Raises:
            PartEnded: it did not start, or `stop` was set.
        """

    def upkeep(self) -> None:
        """Called every few seconds while the process runs."""

    def ending(self) -> PartEnded:
        """How the process ended; called when `pid` is None."""

    def stop(self, hurry: Flag) -> None:
        """Stops the process completely; cleanly, unless `hurry` is set."""


@dataclass(frozen=True)
class Pauses:
    """Pauses before restarts, in s. They double each time, until the part has run well for a while."""

    first_s: float = 0.5
    longest_s: float = 30.0
    well_s: float = 60.0


class Supervisor:
    """Runs a part in a separate thread until `stop`, and restarts it whenever it ends.

    Before `settle`, a part that refuses to start is not restarted: see `refusal`.

    Args:
        part: the part to run.
        say: called from that thread when the part ends and when it runs again.
        hurry: set to make a stop quick.
        pauses: pauses before restarts.
    """

    def __init__(self, part: Part, say: Callable[[str], None], hurry: Flag, pauses: Pauses | None = None) -> None:
        self._part, self._say, self._hurry = part, say, hurry
        self._pauses = pauses or Pauses()
        self._stop = Flag()
        self._settled = False
        # Read by other threads: each value is only replaced, never changed.
        self._refusal: PartEnded | None = None
        self._ended: PartEnded | None = None
        self._next_start = 0.0
        self._running = False
        self._restarts = 0
        self._thread = threading.Thread(target=self._supervise, name=part.name, daemon=True)

    def start(self) -> None:
        """Starts the thread; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the part and the supervision; returns when both have ended."""
        self._stop.set()
        self._thread.join()

    def settle(self) -> None:
        """From now on, the part is always restarted."""
        self._settled = True

    @property
    def name(self) -> str:
        """The part's name."""
        return self._part.name

    @property
    def running(self) -> bool:
        """Whether the part runs and is ready."""
        return self._running

    @property
    def refusal(self) -> PartEnded | None:
        """Why the part refused to start before `settle`; None if it did not. The supervision has then ended."""
        return self._refusal

    @property
    def line(self) -> str:
        """A line about the part's state."""
        name, ended, restarts = self._part.name, self._ended, _restarts(self._restarts)
        if ended is not None:
            seconds = max(0.0, self._next_start - time.monotonic())
            return _ended(name, ended, f"started again in {seconds:.0f} s; {restarts}")
        state = "runs" if self._running else "is starting"
        return f"{name} {state}; {restarts}" if self._restarts else f"{name} {state}"

    def _supervise(self) -> None:
        pause = self._pauses.first_s
        while not self._stop.is_set():
            began = time.monotonic()
            ended = self._one_life()
            if ended is None or self._stop.is_set():
                break
            if ended.refused and not self._settled:
                self._refusal = ended
                break
            if time.monotonic() - began >= self._pauses.well_s:
                pause = self._pauses.first_s
            self._restarts += 1
            self._next_start = time.monotonic() + pause
            self._ended = ended
            told = f"started again in {pause:g} s; {_restarts(self._restarts)}"
            self._say(_ended(self._part.name, ended, told))
            self._stop.wait(pause)
            self._ended = None
            pause = min(2 * pause, self._pauses.longest_s)
        try:
            self._part.stop(self._hurry)
        except Exception:  # the other parts must still be stopped
            _log.exception("a part did not end cleanly", extra={"part": self._part.name})

    def _one_life(self) -> PartEnded | None:
        """Runs the part once; returns how it ended, or None if it was stopped."""
        try:
            self._part.start(self._stop)
            self._running = True
            if self._restarts:
                self._say(f"{self._part.name} runs again")
            while (pid := self._part.pid) is not None:
                if self._has_ended(pid, UPKEEP_S):
                    break
                if self._stop.is_set():
                    return None
                self._part.upkeep()
            return self._part.ending()
        except PartEnded as ended:
            return None if self._stop.is_set() else ended
        except Exception as error:  # our own error: treated like an end of the part, and retried
            _log.exception("a part cannot be run", extra={"part": self._part.name})
            return PartEnded("not started", f"{type(error).__name__}: {error}")
        finally:
            self._running = False

    def _has_ended(self, pid: int, seconds: float) -> bool:
        """Waits for the end of the process, a stop, or a time."""
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            waiting = select.poll()
            for descriptor in (process, self._stop.fileno()):
                waiting.register(descriptor, select.POLLIN)
            return process in dict(waiting.poll(seconds * 1000))
        finally:
            with contextlib.suppress(OSError):
                os.close(process)


def _restarts(count: int) -> str:
    return f"{count} restart{'' if count == 1 else 's'}"


def _ended(name: str, ended: PartEnded, told: str) -> str:
    return f"{name} ended ({ended.how}), {told}{f'; it said: {ended.said}' if ended.said else ''}"
