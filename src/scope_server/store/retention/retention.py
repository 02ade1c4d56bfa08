"""Checks the stored data every minute, and deletes the oldest days while it exceeds the limits."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import psycopg

from scope_server.store.latest.forget import forget
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout
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
    """The stored data at the last check.

    Attributes:
        bytes: total size, with the write-ahead log; None before the first check.
        wal_bytes: size of that log.
        days: bytes per day, oldest first.
        problem: why the limits are exceeded; empty if they are not.
    """

    bytes: int | None = None
    wal_bytes: int = 0
    days: Mapping[date, int] = field(default_factory=dict)
    problem: str = ""


class Retention:
    """Enforces the limits. A job of `Upkeep`.

    Args:
        disk: the database's disk, with its limits.
        keep_days: older days are deleted.
        today: returns the clock's day, which is never deleted.
        layout: how rows lie.

    Attributes:
        storage: the stored data at the last check.
        dropped_days: deleted days by reason, since the server's start.
        dropped_rows, dropped_bytes: their rows and bytes.
    """

    name = "retention"
    every_s = _EVERY_S
    frugal = False

    def __init__(
        self, disk: Disk, keep_days: int, today: Callable[[], date] = utc_today, layout: Layout = BLOCKS
    ) -> None:
        self._layout = layout
        self._disk, self._keep_days, self._calendar = disk, keep_days, Calendar(today)
        self.storage = Storage()
        self.dropped_days: Counter[str] = Counter()
        self.dropped_rows = self.dropped_bytes = 0
        self._looked_at: float | None = None
        self._told_at: float | None = None

    @property
    def urgent(self) -> bool:
        """Whether free space is too low, and no day was deleted in the last minute."""
        recently = self._looked_at is not None and time.monotonic() - self._looked_at < _EVERY_S
        return self._disk.short and not recently

    def begin(self, connection: Connection) -> None:
        """Finds the disk."""
        self._disk.look(connection)

    def end(self) -> None:
        """Nothing to release."""

    def step(self, connection: Connection) -> bool:
        """Deletes at most one day; returns whether more are due.

        Raises:
            psycopg.Error: the deletion is incomplete; the next step continues it.
        """
        short = self._disk.short
        if short:
            self._looked_at = time.monotonic()
        begun = unfinished(connection)
        stored = measure(connection, self._layout)
        today = self._calendar.look(max(stored.days, default=None))
        if not begun:
            choice = next_to_go(stored.bytes, stored.days, today, self._limits(short))
            if choice:
                plan(connection, stored, *choice)
                begun = [choice]
        # Before the rows; but not while free space is too low, because deleting rows first needs space: these states
        # are deleted with the next day.
        if not short and any(forget(connection, day) for day, _ in begun):
            return True
        gone = [self._drop(connection, day, reason) for day, reason in begun]
        if begun:
            stored = measure(connection, self._layout)
        self._tell(stored, today, [day for (day, _), one in zip(begun, gone, strict=True) if not one])
        # Free space may be low only for a moment: delete one day per minute, see `urgent`.
        return bool(gone) and all(gone) and not short

    def _drop(self, connection: Connection, day: date, reason: Reason) -> bool:
        gone = drop(connection, day, self._layout)
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
        problem = f"{waiting[0]} must be deleted, but is still being read" if waiting else self._calendar.doubt
        stuck = stored.bytes > limit and next_to_go(stored.bytes, stored.days, today, self._limits(False)) is None
        if stuck:
            problem = (
                f"{stored.bytes >> 20} MiB are stored, more than the limit of {limit >> 20} MiB, and no "
                f"day can be deleted: record less, or raise --keep-bytes"
            )
        self.storage = Storage(stored.bytes, stored.wal_bytes, stored.days, problem)
        now = time.monotonic()
        if stuck and not waiting and (self._told_at is None or now - self._told_at >= _TOLD_EVERY_S):
            self._told_at = now
            _log.error("stored data exceeds the limits", extra={"reason": problem})
