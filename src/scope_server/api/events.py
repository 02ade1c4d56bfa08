"""GET /events/STREAM: what was recorded, page by page."""

from aiohttp import web

from scope_catalogue.errors import InvalidFilter
from scope_catalogue.nearest import unknown
from scope_catalogue.where import read_filter
from scope_server.api.context import DATABASE, READER, TABLES
from scope_server.api.input import Parameters
from scope_server.api.machines import machines_named
from scope_server.api.output import plain
from scope_server.errors import InvalidQuery, UnknownThing
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Order
from scope_server.store.schema.columns import StreamTable

MOST_GAPS = 100  # newest times without a run
NAMES = ("where", "since", "until", "machine", "limit", "cursor", "order")


async def get_events(request: web.Request) -> web.Response:
    """A page of events, with what was lost of the stream in its time. The first page also tells the times at which
    nothing was recorded, as losses of an unknown count."""
    tables, stream = request.app[TABLES], request.match_info["stream"]
    if stream not in tables:
        raise UnknownThing(f"there is {unknown('stream', stream, sorted(tables))}")
    given = Parameters(request, NAMES)
    machines = await machines_named(request, given.text("machine"))
    query = _query(given, tables[stream], machines)
    page = await request.app[READER].page(query)
    where = {"stream": stream, "machines": machines, "since": query.since, "until": query.until}
    database = request.app[DATABASE]
    losses = [plain(row) for row in await database.fetch("stream_losses", where)]
    about = {**where, "probe": query.table.probe, "most": MOST_GAPS}
    gaps = [] if query.cursor else await database.fetch("stream_gaps", about)
    losses += ({"place": "agent", "reason": "not_recorded", "count": None, **plain(gap)} for gap in gaps)
    return web.json_response({"events": page.events, "next": page.next or None, "more": page.more, "losses": losses})


def _query(given: Parameters, table: StreamTable, machines: list[int] | None) -> EventQuery:
    where = given.text("where")
    try:
        condition = read_filter(where, table.types) if where is not None else None
    except InvalidFilter as error:
        raise InvalidQuery(str(error)) from None
    return EventQuery(
        table,
        condition,
        since=given.moment("since"),
        until=given.moment("until"),
        machines=machines,
        order=Order(given.choice("order", [order.value for order in Order]) or Order.DESCENDING),
        limit=given.integer("limit", 1, MOST_ROWS) or 100,
        cursor=given.text("cursor") or "",
    )


ROUTES = [web.get("/api/v1/events/{stream}", get_events)]
