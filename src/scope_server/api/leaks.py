"""GET /leaks: CUDA memory that was allocated and not freed, by who allocated it."""

from aiohttp import web

from scope_server.api.context import DATABASE
from scope_server.api.nodes import find_machine, plain
from scope_server.errors import InvalidQuery

_MOST = 1000


async def get_leaks(request: web.Request) -> web.Response:
    """The latest state of each stack that holds memory, the largest first, as of its time.

    Those of processes that have ended come last: their memory is free. `unknown_frees` are those of memory that was
    allocated before it was watched: there may be more of it than is told.
    """
    given = request.query
    unknown = set(given) - {"pid", "node", "hours", "limit"}
    if unknown:
        raise InvalidQuery(f"{min(unknown)}: no such parameter; there are pid, node, hours, limit")
    where = {
        "pid": _number(request, "pid", None),
        "machine": await find_machine(request, given["node"]) if "node" in given else None,
        "seconds": 3600 * (_number(request, "hours", 24) or 0),
        "limit": min(_number(request, "limit", 100) or 0, _MOST),
    }
    database = request.app[DATABASE]
    found = {name: await database.fetch(name, where) for name in ("leaks", "unknown_frees")}
    return web.json_response({name: [plain(row) for row in rows] for name, rows in found.items()})


def _number(request: web.Request, name: str, default: int | None) -> int | None:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise InvalidQuery(f"{name}: '{text}' is no whole number from 1 on")
    return int(text)


ROUTES = [web.get("/api/v1/leaks", get_leaks)]
