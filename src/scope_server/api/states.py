"""GET /states/STREAM: the current states of a stream, in groups."""

from datetime import UTC, datetime, timedelta

from aiohttp import web

from scope_catalogue.nearest import unknown
from scope_server.api.context import DATABASE, STATES, TABLES
from scope_server.api.input import PID, Parameters
from scope_server.api.nodes import find_machine
from scope_server.api.output import plain
from scope_server.errors import InvalidQuery, UnknownThing

MOST = 1000
LONGEST_H = 10 * 366 * 24


async def get_states(request: web.Request) -> web.Response:
    """Groups of states that have not ended, the largest first; groups of ended processes last."""
    stream, tables = request.match_info["stream"], request.app[TABLES]
    of_states = sorted(name for name, table in tables.items() if table.latest)
    if stream not in of_states:
        raise UnknownThing(f"there is {unknown('stream of states', stream, of_states)}")
    given = Parameters(request, ("pid", "node", "hours", "limit"))
    node, pid = given.text("node"), given.integer("pid", 1, PID)
    if pid is not None and not tables[stream].of_processes:
        raise InvalidQuery(f"pid: the states of stream '{stream}' belong to no process")
    machine = None if node is None else (await find_machine(request, node))[0]
    processes = None
    if pid is not None:
        of = {"pid": pid, "start_ns": None, "machines": None if machine is None else [machine]}
        processes = [row["id"] for row in await request.app[DATABASE].fetch("find_processes", of)]
    groups = await request.app[STATES].largest(
        tables[stream],
        since=datetime.now(UTC) - timedelta(hours=given.integer("hours", 1, LONGEST_H) or 24),
        limit=given.integer("limit", 1, MOST) or 100,
        machine=machine,
        processes=processes,
    )
    return web.json_response({"groups": [plain(row) for row in groups]})


ROUTES = [web.get("/api/v1/states/{stream}", get_states)]
