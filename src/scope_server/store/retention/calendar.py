"""Which day it is, and whether to believe it: what goes for its age is gone, and a clock may be wrong."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

_LEAP = timedelta(days=7)
_DOUBTED_S = 24 * 3600.0
_log = logging.getLogger(__name__)


def utc_today() -> date:
    """The day (UTC) that it is."""
    return datetime.now(UTC).date()


class Calendar:
    """Asks the clock for the day, and doubts it for 24 hours when it has leapt ahead.

    It has, if more than a week has passed since it was asked last, which is every minute; or, at the first time, since
    the newest rows. The clock may be right, as after a long holiday: then the doubt costs a day of keeping.

    Args:
        today: the clock.
    """

    def __init__(self, today: Callable[[], date] = utc_today) -> None:
        self._today = today
        self._before: date | None = None
        self._leap: _Leap | None = None

    def look(self, newest: date | None) -> date:
        """The day that the clock says.

        Args:
            newest: day of the newest rows.
        """
        today = self._today()
        before = self._before or newest or today
        self._before = today
        leap = self._leap
        if today - before > _LEAP:
            self._leap = _Leap(before, today, time.monotonic())
            _log.error("the clock has leapt", extra={"before": before.isoformat(), "today": today.isoformat()})
        elif leap and (today < leap.today or time.monotonic() - leap.at > _DOUBTED_S):
            self._leap = None  # it was set right, or it is right
        return today

    @property
    def doubt(self) -> str:
        """Why the day is not believed, for people; or nothing."""
        leap = self._leap
        if leap is None:
            return ""
        return f"the clock has leapt from {leap.before} to {leap.today}: for 24 hours nothing is dropped for its age"


@dataclass(frozen=True)
class _Leap:
    before: date
    today: date
    at: float  # monotonic
