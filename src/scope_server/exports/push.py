"""Pushes what one source has to one target: in order, with pauses, bounds and counts."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scope_server.errors import InvalidQuery, QueryTooSlow, StoreUnavailable, TargetUnavailable
from scope_server.exports.contract import Item, Source, Target

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
GIVE_UP_S = 24 * 3600.0  # what a target did not take for so long is left out, and counted
_log = logging.getLogger(__name__)


@dataclass
class Counts:
    """What became of an export's items, since the server began.

    Attributes:
        sent: acknowledged items.
        refused: items that the target does not want.
        given_up: minutes or rows that were left out, because the target did not take them for `GIVE_UP_S`.
        failures: tries that failed.
        current_at: when nothing was left to send, by time.monotonic.
    """

    sent: int = 0
    refused: int = 0
    given_up: int = 0
    failures: int = 0
    current_at: float = 0.0

    @property
    def behind_s(self) -> float:
        """For how long something has been waiting."""
        return time.monotonic() - self.current_at


class Positions(Protocol):
    """Where positions are kept."""

    async def position(self, name: str) -> str:
        """The position of an export; empty if there is none."""

    async def keep(self, name: str, position: str) -> None:
        """Keeps it."""


class Unkept:
    """Positions of sources that need none."""

    async def position(self, name: str) -> str:
        """None."""
        return ""

    async def keep(self, name: str, position: str) -> None:
        """Does nothing."""


class Push:
    """One source to one target."""

    def __init__(self, source: Source, target: Target, give_up_s: float = GIVE_UP_S) -> None:
        self.name = f"{target.name}.{source.name}"
        self.counts = Counts()
        self._source, self._target, self._give_up_s = source, target, give_up_s

    async def run(self, positions: Positions) -> None:
        """Pushes until cancelled.

        Raises:
            StoreUnavailable: positions cannot be read.
        """
        self.counts.current_at = time.monotonic()
        position = await positions.position(self.name)
        while True:
            try:
                portion = await self._source.read(position)
                after, more = portion.position, portion.more
                if not await self._push(portion.items):
                    skipped = await self._source.skip(position)
                    self.counts.given_up += skipped.count
                    after, more = skipped.position, False
                elif not more:
                    self.counts.current_at = time.monotonic()
                before, position = position, after
                if position != before:
                    await positions.keep(self.name, position)
            except StoreUnavailable as error:
                _log.info("an export waits for the database", extra={"export": self.name, "reason": str(error)})
                more = False
            except (InvalidQuery, QueryTooSlow) as error:  # the position may be of another version
                _log.warning("an export cannot be read", extra={"export": self.name, "reason": str(error)})
                more = False
            if not more:
                await asyncio.sleep(self._source.every_s)

    async def _push(self, items: Sequence[Item]) -> bool:
        """Whether all were sent; else the target did not take them for too long."""
        for place in range(0, len(items), self._target.most):
            if not await self._sent(items[place : place + self._target.most]):
                return False
        return True

    async def _sent(self, items: Sequence[Item]) -> bool:
        pause_s, end = _FIRST_PAUSE_S, time.monotonic() + self._give_up_s
        while True:
            try:
                refused = await self._target.send(items)
            except TargetUnavailable as error:
                self.counts.failures += 1
                if time.monotonic() >= end:
                    _log.error("an export gives up", extra={"export": self.name, "reason": str(error)})
                    return False
                wait_s = max(error.again_s, pause_s * random.uniform(0.5, 1.0))
                _log.warning(
                    "an export failed", extra={"export": self.name, "reason": str(error), "again_s": round(wait_s, 1)}
                )
                await asyncio.sleep(wait_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            self.counts.sent += len(items) - refused
            self.counts.refused += refused
            if refused:
                _log.warning("an export was refused", extra={"export": self.name, "items": refused})
            return True
