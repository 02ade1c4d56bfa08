"""What is stored, in one line."""

from collections.abc import Mapping
from typing import Any

from scope_views.quantities import size

_LIMITS = ("limit", "floor")  # reasons to drop a day before it is old


def storage_line(storage: Mapping[str, Any]) -> str:
    """How much is stored of how much may be, since when, which days had to go, and what is wrong.

    Args:
        storage: as GET /storage answers.
    """
    held = "not looked at yet" if storage["bytes"] is None else size(storage["bytes"])
    line = f"storage: {held} of {size(storage['limit_bytes'])}"
    if storage["wal_bytes"]:
        line += f" ({size(storage['wal_bytes'])} of it write-ahead log)"
    if storage["oldest_day"]:
        line += f", since {storage['oldest_day']}"
    dropped = {reason: count for reason in _LIMITS if (count := storage["dropped_days"][reason])}
    if dropped:
        days = sum(dropped.values())
        line += f"; {days} {'day' if days == 1 else 'days'} dropped ({', '.join(dropped)})"
    free, floor = storage["free_bytes"], storage["floor_bytes"]
    if free is not None and free < floor:
        line += f"; waits: only {size(free)} are free on the disk (floor {size(floor)})"
    return f"{line}; {storage['problem']}" if storage["problem"] else line
