"""Lets agents in at the pace at which the server can begin their sessions, when all return at once.

An agent that has to wait is told for how long. It keeps its connection, so that it needs no other handshake.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scope_server.errors import ComeAgain

MOST = 200  # agents whose sessions begin at the same time
_FIRST_PACE_S = 0.002
_LEAST_PACE_S, _MOST_PACE_S = 0.0005, 0.02
_WEIGHT = 0.02  # of the newest interval in the average
_LEAST_WAIT_S, _MOST_WAIT_S = 0.25, 15.0


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
    """Counts the agents whose sessions begin, and gives the others a time to come again, one after the other.

    Attributes:
        sent_away: agents that had to come again, so far.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._inside = most, 0
        self._pace_s = _FIRST_PACE_S  # time between two agents that come again
        self._left_at: float | None = None  # when the last turn was over, while all places are taken
        self._next = 0.0  # when the agent that was sent away last comes again
        self.sent_away = 0

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """A turn, that ends with the block or before.

        Raises:
            ComeAgain: too many sessions begin now.
        """
        if self._inside >= self._most:
            raise self._later()
        self._inside += 1
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.over()

    def leave(self) -> None:
        """Notes that a turn is over."""
        now = time.monotonic()
        full = self._inside >= self._most
        self._inside -= 1
        interval = _LEAST_PACE_S  # with free places, it is the agents that are slow: they may come faster
        if full and self._left_at is not None:
            interval = max(_LEAST_PACE_S, min(_MOST_PACE_S, now - self._left_at))
        self._left_at = now if full else None
        self._pace_s += _WEIGHT * (interval - self._pace_s)

    def _later(self) -> ComeAgain:
        now = time.monotonic()
        self.sent_away += 1
        self._next = max(self._next + self._pace_s, now + _LEAST_WAIT_S)
        if self._next > now + _MOST_WAIT_S:
            self._next = now + _MOST_WAIT_S
            return ComeAgain(_MOST_WAIT_S * random.uniform(0.5, 1.0))
        return ComeAgain(self._next - now)
