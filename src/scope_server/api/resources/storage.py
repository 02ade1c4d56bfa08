"""Storage used, its limits, and deleted days."""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, DISK, RETENTION, UPKEEP
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer
from scope_server.api.routing.route import PREFIX, Routes

ROUTES = Routes()

_DROPPED = 20  # number of latest deleted days to show


class Day(Answer):
    """A day that is stored."""

    day: date
    bytes: int


class DroppedDays(Answer):
    """Numbers of deleted days by reason."""

    age: int
    limit: int
    floor: int


class DroppedDay(Answer):
    """A deleted day."""

    day: date
    reason: Literal["age", "limit", "floor"]
    rows: int
    bytes: int
    dropped_at: datetime


class Storage(Answer):
    """What is stored. Sizes are as last measured, at most a minute ago; null if not measured yet, or unknown."""

    bytes: int | None
    wal_bytes: int | None = Field(description="of these, PostgreSQL's write-ahead log")
    limit_bytes: int = Field(description="beyond this, the oldest days are deleted")
    free_bytes: int | None = Field(description="on the database's disk")
    floor_bytes: int = Field(description="with less free, nothing is stored")
    oldest_day: date | None
    days: list[Day]
    dropped_days: DroppedDays
    dropped: list[DroppedDay] = Field(description="the newest")
    problem: str | None = Field(description="what is wrong")


@ROUTES.get(f"{PREFIX}/storage", Role.VIEWER)
async def get_storage(call: Call) -> Storage:
    """Storage used, and the days deleted to stay within the limits."""
    database, disk, storage = call[DATABASE], call[DISK], call[RETENTION].storage
    (counted,) = await database.fetch("dropped_days")
    dropped = await database.fetch("dropped", {"most": _DROPPED})
    failed = [f"{job}: {reason}" for job, reason in call[UPKEEP].problems.items()]
    return Storage(
        bytes=storage.bytes,
        wal_bytes=storage.wal_bytes,
        limit_bytes=disk.limit_bytes,
        free_bytes=disk.free_bytes,
        floor_bytes=disk.floor_bytes,
        oldest_day=min(storage.days) if storage.days else None,
        days=[Day(day=day, bytes=size) for day, size in storage.days.items()],
        dropped_days=DroppedDays(**counted),
        dropped=[DroppedDay(**row) for row in dropped],
        problem="; ".join([*([storage.problem] if storage.problem else []), *failed]) or None,
    )
