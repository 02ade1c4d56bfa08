"""The CPU time that reading one file may take: files of watched processes may be hostile.

When a trace ends, it does not wait for the threads that read files to attach in them.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from scope_bpf.errors import GivenUp

Piece = TypeVar("Piece")

MOST_S = 10.0  # of CPU time at once; the tables of libraries of 500 MB take 1 to 3 s
_SHARE = 0.01  # of a CPU, for a file that is read again and again
_thread = threading.local()


def give_up_at(ending: threading.Event) -> None:
    """From now on, this thread's reading of files ends with `GivenUp` once `ending` is set."""
    _thread.ending = ending


class Effort:
    """For any thread. Each charges the CPU time that it uses itself.

    Args:
        left_out: what of the file is left out, as text; gets an entry when reading is given up.
    """

    def __init__(self, left_out: dict[str, str]) -> None:
        self._since, self._spent_ns = time.monotonic(), 0
        self._left_out = left_out

    @property
    def is_spent(self) -> bool:
        """Whether the file has taken its time."""
        return self._spent_ns / 1e9 > MOST_S + _SHARE * (time.monotonic() - self._since)

    def on(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces of some work, as long as there is time for them; the time from each one to the next is charged.

        Raises:
            GivenUp: see `give_up_at`.
        """
        ending: threading.Event | None = getattr(_thread, "ending", None)
        before = time.thread_time_ns()
        for piece in pieces:
            if ending and ending.is_set():
                raise GivenUp("the trace ends")
            if self.is_spent:
                self._left_out["effort"] = f"what is left after {MOST_S:.0f} s of CPU time"
                return
            yield piece
            now = time.thread_time_ns()
            self._spent_ns += now - before
            before = now
