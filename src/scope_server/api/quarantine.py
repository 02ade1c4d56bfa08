"""GET /quarantine: records that could not be stored; POST /quarantine/ID/retry and /drop: retry or delete one."""

import asyncio
from dataclasses import asdict

from aiohttp import web

from scope_server.api.context import QUARANTINE
from scope_server.api.input import Parameters, integer
from scope_server.api.output import plain

MOST = 1000
_LARGEST_ID = (1 << 63) - 1


async def get_quarantine(request: web.Request) -> web.Response:
    """Quarantined records, newest first: their run, the reason, and whether the record was kept."""
    limit = Parameters(request, ("limit",)).integer("limit", 1, MOST) or 100
    entries = await asyncio.to_thread(request.app[QUARANTINE].entries, limit)
    return web.json_response({"quarantine": [plain(asdict(entry)) for entry in entries]})


async def retry(request: web.Request) -> web.Response:
    """Tries again to store a record; on success, its events no longer count as lost."""
    await asyncio.to_thread(request.app[QUARANTINE].retry, _entry(request))
    return web.json_response({"stored": True})


async def drop(request: web.Request) -> web.Response:
    """Deletes a record; its events stay counted as lost."""
    await asyncio.to_thread(request.app[QUARANTINE].drop, _entry(request))
    return web.json_response({"dropped": True})


def _entry(request: web.Request) -> int:
    Parameters(request, ())
    return integer(request.match_info["id"], "id", 1, _LARGEST_ID)


ROUTES = [
    web.get("/api/v1/quarantine", get_quarantine),
    web.post("/api/v1/quarantine/{id}/retry", retry),
    web.post("/api/v1/quarantine/{id}/drop", drop),
]
