"""GET /events/STREAM: what was recorded, page by page."""

from datetime import UTC, datetime

from aiohttp import web

from scope_server.api.context import DATABASE, READER, TABLES
from scope_server.errors import InvalidQuery, UnknownThing
from scope_server.store.columns import StreamTable
from scope_server.store.reader import MOST_ROWS, OPERATORS, EventQuery, Filter

OWN = ("since", "until", "machine", "limit", "cursor", "order")


async def get_events(request: web.Request) -> web.Response:
    """A page of events, with what the stream's tasks have lost."""
    tables, stream = request.app[TABLES], request.match_info["stream"]
    if stream not in tables:
        raise UnknownThing(f"there is no stream '{stream}'; there are: {', '.join(sorted(tables))}")
    machines = await _machines(request)
    query = _query(request, tables[stream], machines)
    page = await request.app[READER].page(query)
    where = {"stream": stream, "machines": machines, "since": query.since, "until": query.until}
    losses = await request.app[DATABASE].fetch("stream_losses", where)
    return web.json_response({"events": page.events, "next": page.next or None, "losses": losses})


async def _machines(request: web.Request) -> list[int] | None:
    machine = request.query.get("machine")
    if machine is None:
        return None
    rows = await request.app[DATABASE].fetch("find_machines", {"node": machine})
    if not rows:
        raise UnknownThing(f"machine: none has the hostname or id '{machine}'; /api/v1/nodes lists them")
    return [row["id"] for row in rows]


def _query(request: web.Request, table: StreamTable, machines: list[int] | None) -> EventQuery:
    given = request.query
    order = given.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidQuery(f"order: '{order}' is neither asc nor desc")
    filters = []
    for name, value in given.items():
        if name in OWN:
            continue
        column, _, operator = name.partition(".")
        if operator and operator not in OPERATORS:
            raise InvalidQuery(f"{name}: '{operator}' is not one of {', '.join(OPERATORS)}")
        filters.append(Filter(column, operator or "eq", value))
    return EventQuery(
        table,
        filters,
        since=_time(given.get("since"), "since"),
        until=_time(given.get("until"), "until"),
        machines=machines,
        ascending=order == "asc",
        limit=_limit(given.get("limit", "100")),
        cursor=given.get("cursor", ""),
    )


def _time(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidQuery(f"{name}: '{text}' is no time; write it as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _limit(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_ROWS:
        raise InvalidQuery(f"limit: '{text}' is not from 1 to {MOST_ROWS}")
    return int(text)


ROUTES = [web.get("/api/v1/events/{stream}", get_events)]
