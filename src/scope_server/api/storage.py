"""GET /storage: storage used, its limits, and deleted days."""

from typing import Any

from aiohttp import web

from scope_server.api.context import DATABASE, DISK, RETENTION, UPKEEP
from scope_server.api.input import Parameters
from scope_server.api.output import plain

_DROPPED = 20  # number of latest deleted days to show


async def get_storage(request: web.Request) -> web.Response:
    """Sizes as last measured, at most a minute ago; null if not measured yet, or unknown."""
    Parameters(request, ())
    database, disk, storage = request.app[DATABASE], request.app[DISK], request.app[RETENTION].storage
    (counted,) = await database.fetch("dropped_days")
    dropped = await database.fetch("dropped", {"most": _DROPPED})
    failed = [f"{job}: {reason}" for job, reason in request.app[UPKEEP].problems.items()]
    body: dict[str, Any] = {
        "bytes": storage.bytes,
        "wal_bytes": storage.wal_bytes,
        "limit_bytes": disk.limit_bytes,
        "free_bytes": disk.free_bytes,
        "floor_bytes": disk.floor_bytes,
        "oldest_day": min(storage.days).isoformat() if storage.days else None,
        "days": [{"day": day.isoformat(), "bytes": size} for day, size in storage.days.items()],
        "dropped_days": counted,
        "dropped": [{**plain(row), "day": row["day"].isoformat()} for row in dropped],
        "problem": "; ".join([*([storage.problem] if storage.problem else []), *failed]) or None,
    }
    return web.json_response(body)


ROUTES = [web.get("/api/v1/storage", get_storage)]
