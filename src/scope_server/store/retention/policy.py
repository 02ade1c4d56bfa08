"""Chooses the next day to delete, with the reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum


class Reason(Enum):
    """Why a day is deleted."""

    AGE = "age"
    LIMIT = "limit"  # more bytes are stored than the limit
    FLOOR = "floor"  # too little free space on the disk


@dataclass(frozen=True)
class Limits:
    """The limits.

    Attributes:
        keep_days: older days are deleted; None: the clock is not trusted, no day is deleted for its age.
        keep_bytes: maximum bytes of stored data.
        short: free space on the disk is below the floor.
    """

    keep_days: int | None
    keep_bytes: int
    short: bool


def next_to_go(stored_bytes: int, days: Mapping[date, int], today: date, limits: Limits) -> tuple[date, Reason] | None:
    """The oldest day, if it must be deleted; today (UTC) and later days are never deleted.

    Args:
        days: bytes per day.
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
