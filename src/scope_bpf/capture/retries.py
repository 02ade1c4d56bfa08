"""Retries actions that fail temporarily, with growing pauses."""

import errno
import heapq
import logging
import math
import time
from collections.abc import Callable

from scope_bpf.host import NO_DESCRIPTORS

log = logging.getLogger(__name__)

TRANSIENT = frozenset({errno.EAGAIN, errno.EBUSY, errno.ENOMEM}) | NO_DESCRIPTORS
_FIRST_PAUSE_S = 0.01
_MOST_TRIES = 9  # in 5 s


class Retries:
    """Runs actions, and retries those that fail for a temporary reason. For one thread at a time.

    Args:
        make_room: called when no descriptor is free; closes files that can be opened again.

    Attributes:
        waits: wait during pauses, instead of retrying in a later `run`.
        repeated: number of retries.
        given_up: number of actions that never succeeded.
    """

    def __init__(self, make_room: Callable[[], None]) -> None:
        self._make_room = make_room
        self._waiting: list[tuple[float, int, int, str, Callable[[], object]]] = []
        self._number = 0
        self.waits = True
        self.repeated = 0
        self.given_up = 0

    def attempt(self, what: str, action: Callable[[], object]) -> None:
        """Runs an action, now or later.

        Args:
            what: description of the action, for the log.

        Raises:
            OSError: the action failed for a permanent reason, or too often.
        """
        tries = 0
        while True:
            tries += 1
            try:
                action()
                return
            except OSError as error:
                if not self._is_transient(error):
                    raise
                if self.waits and tries == _MOST_TRIES:
                    self.given_up += 1
                    raise
                if not self.waits:
                    self._put_off(tries, what, action)
                    return
            self.repeated += 1
            time.sleep(_pause_s(tries))

    def _put_off(self, tries: int, what: str, action: Callable[[], object]) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (time.monotonic() + _pause_s(tries), self._number, tries, what, action))

    def run(self) -> None:
        """Retries the actions that are due."""
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, tries, what, action = heapq.heappop(self._waiting)
            self.repeated += 1
            try:
                action()
            except OSError as error:
                if self._is_transient(error) and tries + 1 < _MOST_TRIES:
                    self._put_off(tries + 1, what, action)
                else:
                    self.given_up += 1
                    log.warning("gave up after retries", extra={"what": what, "tries": tries + 1, "reason": str(error)})

    def _is_transient(self, error: OSError) -> bool:
        if error.errno in NO_DESCRIPTORS:
            self._make_room()
        return error.errno in TRANSIENT

    def due_s(self) -> float:
        """Seconds until the next retry; infinite if there is none."""
        return max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else math.inf


def _pause_s(tries: int) -> float:
    return float(_FIRST_PAUSE_S * 2 ** (tries - 1))
