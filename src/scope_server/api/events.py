"""GET /events/STREAM: what was recorded, page by page."""

from aiohttp import web

from scope_server.api.context import DATABASE, READER, TABLES
from scope_server.api.input import Parameters, quoted
from scope_server.api.machines import machines_named
from scope_server.api.output import plain
from scope_server.errors import InvalidQuery, UnknownThing
from scope_server.store.reading.reader import MOST_ROWS, OPERATORS, EventQuery, Filter
from scope_server.store.schema.columns import StreamTable

OWN = ("since", "until", "machine", "limit", "cursor", "order")


async def get_events(request: web.Request) -> web.Response:
    """A page of events, with what was lost of the stream in its time."""
    tables, stream = request.app[TABLES], request.match_info["stream"]
    if stream not in tables:
        raise UnknownThing(f"there is no stream {quoted(stream)}; there are: {', '.join(sorted(tables))}")
    given = Parameters(request, None)
    machines = await machines_named(request, given.text("machine"))
    query = _query(given, tables[stream], machines)
    page = await request.app[READER].page(query)
    where = {"stream": stream, "machines": machines, "since": query.since, "until": query.until}
    losses = [plain(row) for row in await request.app[DATABASE].fetch("stream_losses", where)]
    return web.json_response({"events": page.events, "next": page.next or None, "losses": losses})


def _query(given: Parameters, table: StreamTable, machines: list[int] | None) -> EventQuery:
    filters = []
    for name, value in given.others(OWN):
        column, _, operator = name.partition(".")
        if operator and operator not in OPERATORS:
            raise InvalidQuery(f"{quoted(name)}: {quoted(operator)} is not one of {', '.join(OPERATORS)}")
        filters.append(Filter(column, operator or "eq", value))
    return EventQuery(
        table,
        filters,
        since=given.moment("since"),
        until=given.moment("until"),
        machines=machines,
        ascending=given.choice("order", ("asc", "desc")) == "asc",
        limit=given.integer("limit", 1, MOST_ROWS) or 100,
        cursor=given.text("cursor") or "",
    )


ROUTES = [web.get("/api/v1/events/{stream}", get_events)]
