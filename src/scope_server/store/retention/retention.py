"""Looks every minute at what is stored, and drops the oldest days while there is more than is kept."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import psycopg

from scope_server.store.latest.forget import forget
from scope_server.store.retention.calendar import Calendar, utc_today
from scope_server.store.retention.days import Stored, measure
from scope_server.store.retention.disk import Disk
from scope_server.store.retention.drop import drop, plan, unfinished
from scope_server.store.retention.policy import Limits, Reason, next_to_go

Connection = psycopg.Connection[tuple[Any, ...]]

_EVERY_S = 60.0
_TOLD_EVERY_S = 3600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Storage:
    """What was stored when it was looked at last.

    Attributes:
        bytes: of all; None if it was not looked at yet.
        days: bytes by day, the oldest first.
        problem: why more is stored than is kept, or nothing.
    """

    bytes: int | None = None
    days: Mapping[date, int] = field(default_factory=dict)
    problem: str = ""


class Retention:
    """Keeps to the limits. A job of `Upkeep`.

    Args:
        disk: that the database lies on, with its limits.
        keep_days: days that are older go.
        today: the clock's; it never goes.

    Attributes:
        storage: what was stored when it was looked at last.
        dropped_days: since this was made, by reason.
        dropped_rows, dropped_bytes: likewise.
    """

    name = "retention"
    every_s = _EVERY_S
    frugal = False

    def __init__(self, disk: Disk, keep_days: int, today: Callable[[], date] = utc_today) -> None:
        self._disk, self._keep_days, self._calendar = disk, keep_days, Calendar(today)
        self.storage = Storage()
        self.dropped_days: Counter[str] = Counter()
        self.dropped_rows = self.dropped_bytes = 0
        self._looked_at: float | None = None
        self._told_at: float | None = None

    @property
    def urgent(self) -> bool:
        """Whether the disk is short, and nothing was done about it for a minute."""
        recently = self._looked_at is not None and time.monotonic() - self._looked_at < _EVERY_S
        return self._disk.short and not recently

    def begin(self, connection: Connection) -> None:
        """Finds the disk."""
        self._disk.look(connection)

    def end(self) -> None:
        """It holds nothing."""

    def step(self, connection: Connection) -> bool:
        """Drops at most one day; whether more are to go now.

        Raises:
            psycopg.Error: it was not done; the next step goes on with it.
        """
        short = self._disk.short
        if short:
            self._looked_at = time.monotonic()
        begun = unfinished(connection)
        stored = measure(connection)
        today = self._calendar.look(max(stored.days, default=None))
        if not begun:
            choice = next_to_go(stored.bytes, stored.days, today, self._limits(short))
            if choice:
                plan(connection, stored, *choice)
                begun = [choice]
        # Before the rows; but not while the disk is short, since deleting takes room first: the next day that goes
        # takes these states along.
        if not short and any(forget(connection, day) for day, _ in begun):
            return True
        gone = [self._drop(connection, day, reason) for day, reason in begun]
        if begun:
            stored = measure(connection)
        self._tell(stored, today, [day for (day, _), one in zip(begun, gone, strict=True) if not one])
        # A short disk may be so for a moment only: a day a minute, as `urgent` says.
        return bool(gone) and all(gone) and not short

    def _drop(self, connection: Connection, day: date, reason: Reason) -> bool:
        gone = drop(connection, day)
        if gone is None:
            return False
        self.dropped_days[reason.value] += 1
        self.dropped_rows += sum(rows for _, rows, _ in gone)
        self.dropped_bytes += sum(size for _, _, size in gone)
        return True

    def _limits(self, short: bool) -> Limits:
        keep_days = None if self._calendar.doubt else self._keep_days
        return Limits(keep_days, self._disk.limit_bytes, short)

    def _tell(self, stored: Stored, today: date, waiting: Sequence[date]) -> None:
        limit = self._disk.limit_bytes
        problem = f"{waiting[0]} is to be dropped, and somebody still reads it" if waiting else self._calendar.doubt
        stuck = stored.bytes > limit and next_to_go(stored.bytes, stored.days, today, self._limits(False)) is None
        if stuck:
            problem = (
                f"{stored.bytes >> 20} MiB are stored without a day that could be dropped, more than the "
                f"{limit >> 20} MiB that are kept: record less, or raise --keep-bytes"
            )
        self.storage = Storage(stored.bytes, stored.days, problem)
        now = time.monotonic()
        if stuck and not waiting and (self._told_at is None or now - self._told_at >= _TOLD_EVERY_S):
            self._told_at = now
            _log.error("more is stored than is kept", extra={"reason": problem})
