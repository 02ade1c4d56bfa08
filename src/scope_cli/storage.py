"""What is stored, in one line."""

from scope_cli.api import Storage
from scope_views.quantities import size


def storage_line(storage: Storage) -> str:
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
    counts = storage["dropped_days"]
    dropped = {reason: count for reason, count in (("limit", counts["limit"]), ("floor", counts["floor"])) if count}
    if dropped:
        days = sum(dropped.values())
        line += f"; {days} {'day' if days == 1 else 'days'} dropped ({', '.join(dropped)})"
    free, floor = storage["free_bytes"], storage["floor_bytes"]
    if free is not None and free < floor:
        line += f"; waits: only {size(free)} are free on the disk (floor {size(floor)})"
    return f"{line}; {storage['problem']}" if storage["problem"] else line
