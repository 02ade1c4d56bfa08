"""GET /rollups/STREAM: counts, sums and percentiles per minute, as time series or ranking."""

from aiohttp import web

from scope_catalogue.nearest import unknown
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.input import Parameters
from scope_server.api.machines import machines_named
from scope_server.errors import UnknownThing
from scope_server.store.rollups.query import EVERY, MOST_GROUPS, ORDERS, checked
from scope_server.store.rollups.reader import Rollups

NAMES = ("since", "until", "every", "by", "machine", "top", "order")
_TOP = 10
_QUANTILES = "p50 and p99 are estimated from a histogram in powers of two; points have p99 only with order=p99"


async def get_rollup(request: web.Request) -> web.Response:
    """The top groups of a stream with their totals and, with `every`, a point for each step."""
    tables, stream = request.app[TABLES], request.match_info["stream"]
    if stream not in tables:
        raise UnknownThing(f"there is {unknown('stream', stream, sorted(tables))}")
    given = Parameters(request, NAMES)
    by = given.text("by")
    every = given.choice("every", EVERY)
    query = checked(
        tables[stream],
        since=given.moment("since"),
        until=given.moment("until"),
        every=every,
        by=by.split(",") if by else (),
        machines=await machines_named(request, given.text("machine")),
        order=given.choice("order", ORDERS) or "count",
        top=given.integer("top", 1, MOST_GROUPS) or _TOP,
    )
    rollup = query.table.rollup
    answer = {
        "since": query.since.isoformat(),
        "until": query.until.isoformat(),
        "every": every,
        "counted": query.table.meanings[rollup.count] if rollup.count else "rows",
        "measured": query.table.meanings[rollup.measured] if rollup.measured else None,
        "quantiles": _QUANTILES if rollup.measured else None,
        "groups": await Rollups(request.app[DATABASE]).groups(query),
    }
    return web.json_response(answer)


ROUTES = [web.get("/api/v1/rollups/{stream}", get_rollup)]
