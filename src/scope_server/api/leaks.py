"""GET /leaks: CUDA memory that was allocated and not freed, by who allocated it."""

from aiohttp import web

from scope_server.api.context import DATABASE
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
    node = given.text("node")
    where = {
        "pid": given.integer("pid", 1, PID),
        "machine": None if node is None else (await find_machine(request, node))[1],
        "seconds": 3600 * (given.integer("hours", 1, LONGEST_H) or 24),
        "limit": given.integer("limit", 1, MOST) or 100,
    }
    database = request.app[DATABASE]
    found = {name: await database.fetch(name, where) for name in ("leaks", "unknown_frees")}
    return web.json_response({name: [plain(row) for row in rows] for name, rows in found.items()})


ROUTES = [web.get("/api/v1/leaks", get_leaks)]
