"""GET /health: whether the server can read and write, checked now."""

from aiohttp import web

from scope_server.api.context import BACKLOG, DATABASE, REGISTER, SESSIONS, WRITERS
from scope_server.api.input import Parameters
from scope_server.errors import StoreUnavailable

CHECK_S = 3.0


async def get_health(request: web.Request) -> web.Response:
    """200 if the database answers and can be written to, and agents are admitted, else 503; with each part's state,
    the bytes that wait to be written, how long the oldest record has waited, and refused peers by reason."""
    Parameters(request, ())
    try:
        await request.app[DATABASE].fetch("ping")
        database = ""
    except StoreUnavailable as error:
        database = str(error)
    ingest = await request.app[WRITERS].check(CHECK_S)
    sessions = request.app[REGISTER].unknown
    parts = {"database": database or "ok", "ingest": ingest or "ok", "sessions": sessions or "ok"}
    healthy = not database and not ingest and not sessions
    backlog = request.app[BACKLOG]
    waiting = {"waiting_bytes": backlog.held_bytes, "oldest_waiting_s": round(backlog.oldest_s, 3)}
    refused = {reason.value: count for reason, count in request.app[REGISTER].refusals.counts.items()}
    agents = len(request.app[SESSIONS].all())
    body = {"healthy": healthy, **parts, **waiting, "agents": agents, "refused_peers": refused}
    return web.json_response(body, status=200 if healthy else 503)


ROUTES = [web.get("/api/v1/health", get_health)]
