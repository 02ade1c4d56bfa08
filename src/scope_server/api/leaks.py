"""GET /leaks: CUDA memory that was allocated and not freed, by who allocated it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from scope_server.api.context import DATABASE, STATES, TABLES
from scope_server.api.input import PID, Parameters
from scope_server.api.nodes import find_machine
from scope_server.api.output import plain

MOST = 1000
LONGEST_H = 10 * 366 * 24


async def get_leaks(request: web.Request) -> web.Response:
    """The latest state of each stack that holds memory, the largest first, as of its time.

    Those of processes that have ended come last: their memory is free. `unknown_frees` are those of memory that was
    allocated before it was watched: there may be more of it than is told.
    """
    given = Parameters(request, ("pid", "node", "hours", "limit"))
    node, pid = given.text("node"), given.integer("pid", 1, PID)
    machine = None if node is None else (await find_machine(request, node))[0]
    since = datetime.now(UTC) - timedelta(hours=given.integer("hours", 1, LONGEST_H) or 24)
    limit = given.integer("limit", 1, MOST) or 100
    database = request.app[DATABASE]
    processes = None
    if pid is not None:
        of = {"pid": pid, "start_ns": None, "machines": None if machine is None else [machine]}
        processes = [row["id"] for row in await database.fetch("find_processes", of)]
    where: dict[str, Any] = {"since": since, "machine": machine, "processes": processes, "limit": limit}
    leaks = await request.app[STATES].largest(request.app[TABLES]["cuda_live"], **where)
    frees = await database.fetch("unknown_frees", where)
    return web.json_response({"leaks": [plain(row) for row in leaks], "unknown_frees": [plain(row) for row in frees]})


ROUTES = [web.get("/api/v1/leaks", get_leaks)]
