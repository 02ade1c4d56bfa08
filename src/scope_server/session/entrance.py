"""Lets agents in at the pace at which the server can begin their sessions, when all return at once.

So many begin at a time, so many wait in line. One that finds the line full is told when to come again, by when the line
has become shorter; it keeps its connection, so that it needs no other handshake. A call that waits costs nothing, one
that is sent away costs half as much as the beginning of a session.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scope_server.errors import ComeAgain

MOST, LINE = 64, 2000  # agents whose sessions begin at the same time, and that wait for this
_FIRST_PACE_S = 0.005
_LEAST_PACE_S, _MOST_PACE_S = 0.0005, 0.1
_WEIGHT = 0.02  # of the newest interval in the average
_LEAST_WAIT_S, _MOST_WAIT_S = 0.25, 60.0


class Turn:
    """Of an agent whose session begins."""

    def __init__(self, entrance: "Entrance") -> None:
        self._entrance, self._over = entrance, False

    def over(self) -> None:
        """Says that its session has begun, or will not; may be repeated."""
        if not self._over:
            self._over = True
            self._entrance.leave()


class Entrance:
    """Counts the agents whose sessions begin, and gives those that find the line full times to come again, one after
    the other.

    Attributes:
        sent_away: agents that had to come again, so far.
    """

    def __init__(self, most: int = MOST, line: int = LINE) -> None:
        self._free, self._line = asyncio.Semaphore(most), line
        self._waiting = 0
        self._pace_s = _FIRST_PACE_S  # average time between two turns that are over, while agents wait
        self._left_at: float | None = None  # when the last turn was over, while agents wait
        self._next = 0.0  # when the agent that was sent away last comes again
        self.sent_away = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """A turn, that ends with the block or before; waits for it in line.

        Raises:
            ComeAgain: the line is full.
        """
        if self._free.locked() and self._waiting >= self._line:
            raise self._later()
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.over()

    def leave(self) -> None:
        """Notes that a turn is over."""
        now = time.monotonic()
        if self._waiting and self._left_at is not None:
            interval = max(_LEAST_PACE_S, min(_MOST_PACE_S, now - self._left_at))
            self._pace_s += _WEIGHT * (interval - self._pace_s)
        self._left_at = now if self._waiting else None
        self._free.release()

    def _later(self) -> ComeAgain:
        now = time.monotonic()
        self.sent_away += 1
        # When half of the line is gone, so that it does not become empty.
        soonest = now + max(_LEAST_WAIT_S, self._line / 2 * self._pace_s)
        self._next = max(self._next + self._pace_s, soonest)
        if self._next > now + _MOST_WAIT_S:
            self._next = now + _MOST_WAIT_S
            return ComeAgain(_MOST_WAIT_S * random.uniform(0.5, 1.0))
        return ComeAgain(self._next - now)
