"""The current day, with a check of the clock: a wrong clock must not delete data because of its age."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

_LEAP = timedelta(days=7)
_DOUBTED_S = 24 * 3600.0
_log = logging.getLogger(__name__)


def utc_today() -> date:
    """The current day (UTC)."""
    return datetime.now(UTC).date()


class Calendar:
    """Reads the day from the clock, and distrusts the clock for 24 hours after it has jumped ahead.

    A jump is more than a week since the last call, which is every minute; or, at the first call, since the newest rows.
    If the clock was right, for example after a long shutdown, data is only kept a day longer.

    Args:
        today: the clock.
    """

    def __init__(self, today: Callable[[], date] = utc_today) -> None:
        self._today = today
        self._before: date | None = None
        self._leap: _Leap | None = None

    def look(self, newest: date | None) -> date:
        """The current day by the clock.

        Args:
            newest: the day of the newest rows.
        """
        today = self._today()
        before = self._before or newest or today
        self._before = today
        leap = self._leap
        if today - before > _LEAP:
            self._leap = _Leap(before, today, time.monotonic())
            _log.error("the clock has jumped", extra={"before": before.isoformat(), "today": today.isoformat()})
        elif leap and (today < leap.today or time.monotonic() - leap.at > _DOUBTED_S):
            self._leap = None  # the clock was corrected, or is right
        return today

    @property
    def doubt(self) -> str:
        """Why the clock is not trusted; empty if it is."""
        leap = self._leap
        if leap is None:
            return ""
        return f"the clock has jumped from {leap.before} to {leap.today}: for 24 hours, no data is deleted for its age"


@dataclass(frozen=True)
class _Leap:
    before: date
    today: date
    at: float  # monotonic
