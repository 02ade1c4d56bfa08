"""Which day goes next, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum


class Reason(Enum):
    """Why a day goes."""

    AGE = "age"
    LIMIT = "limit"  # more bytes are stored than are kept
    FLOOR = "floor"  # too little is free on the disk


@dataclass(frozen=True)
class Limits:
    """What is kept.

    Attributes:
        keep_days: whole days that are older go; None: the clock is not believed, none goes for its age.
        keep_bytes: of all that is stored.
        short: less is free on the disk than has to stay so.
    """

    keep_days: int | None
    keep_bytes: int
    short: bool


def next_to_go(stored_bytes: int, days: Mapping[date, int], today: date, limits: Limits) -> tuple[date, Reason] | None:
    """The oldest day, if it has to go; today (UTC) and later days never do.

    Args:
        days: bytes by day.
    """
    oldest = min(days, default=today)
    if oldest >= today:
        return None
    if limits.keep_days is not None and oldest < today - timedelta(days=limits.keep_days):
        return oldest, Reason.AGE
    if limits.short:
        return oldest, Reason.FLOOR
    if stored_bytes > limits.keep_bytes:
        return oldest, Reason.LIMIT
    return None
