"""How often something is read whose reading takes a while."""

import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

EVERY_NS = 5_000_000_000
_SHARE = 250  # reading takes at most one part in so many of a core's time


class Pace:
    """Reads every 5 s; more seldom where there is so much to read that this would take over 0.4 % of a core."""

    def __init__(self, rows: Callable[[int], list[Row]]) -> None:
        self._rows = rows
        self._last_ns = self._next_ns = 0

    def read(self, now_ns: int) -> list[Row] | None:
        """The rows, which get the time since the last reading; it is 0 in the first. None: it is too early."""
        if now_ns < self._next_ns:
            return None
        lasted_ns, self._last_ns = now_ns - self._last_ns if self._last_ns else 0, now_ns
        begin_ns = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
        rows = self._rows(lasted_ns)
        took_ns = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - begin_ns
        self._next_ns = now_ns + max(EVERY_NS, took_ns * _SHARE)
        return rows
