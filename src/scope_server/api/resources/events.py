"""What was recorded, page by page."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, create_model

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, READER
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.streams import (
    OF_MACHINE,
    Rows,
    StreamPath,
    columns_of,
    of_container,
    row_model,
    stream_named,
    texts,
    title,
)
from scope_server.api.resources.window import Filter, TaskId, condition_of, of_task
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Moment, NodeName, Parameters, Recorded, Whole
from scope_server.api.routing.route import PREFIX, OfStream, Routes
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Order
from scope_server.store.schema.columns import StreamTable

ROUTES = Routes()

MOST_GAPS = 100  # newest times without a run
_ORDER = "by time, or as stored: then `next` is always given, and asks for what was stored since"


class EventsQuery(Parameters):
    """Which events."""

    where: Filter | None = None
    since: Moment | None = None
    until: Annotated[Moment, Field(description="not in it")] | None = None
    machine: NodeName | None = None
    task: TaskId | None = None
    limit: Whole = Field(100, ge=1, le=MOST_ROWS)
    cursor: Annotated[str, Field(description="`next` of the page before")] | None = None
    order: Annotated[Literal["asc", "desc", "stored"], Field(description=_ORDER)] = "desc"


class Loss(Answer):
    """Lost events."""

    place: str
    reason: str
    count: int


class NotRecorded(Answer):
    """A time at which a task of the stream was wanted, but did not record. Nobody knows how many events there were."""

    place: Literal["agent"] = "agent"
    reason: Literal["not_recorded"] = "not_recorded"
    count: None = None
    task_id: str
    machine_id: str
    hostname: str
    since: datetime
    until: datetime | None
    run_ended_by: str


class EventPage(Recorded):
    """A page of events, with what was lost of the stream in its time.

    The first page also tells the times at which nothing was recorded.
    """

    model_config = ConfigDict(ser_json_bytes="base64")

    events: Rows
    next: str | None = Field(description="the next page's cursor; null on the last page")
    more: bool = Field(description="whether more rows may be there already")
    losses: list[Loss | NotRecorded]


def _of_stream(table: StreamTable) -> OfStream:
    columns = {
        "time": (str, "when it happened, by the machine's clock, to the nanosecond"),
        **texts(OF_MACHINE),
        "task_id": (str | None, "the task that recorded it"),
        **columns_of(table, table.schema.names),
        **of_container(table),
    }
    row = row_model(title(table, "Event"), columns)
    answer = create_model(title(table, "Page"), __base__=EventPage, events=(list[row], ...))  # type: ignore[valid-type]
    return OfStream(f"Rows of the stream {table.name} (probe {table.probe}): {table.meaning}", answer, EventsQuery)


def _lags(query: EventsQuery) -> bool:
    """Pages that follow each other, or the order of commits, come from one database."""
    return query.cursor is None and query.order != "stored"


@ROUTES.get(f"{PREFIX}/events/{{stream}}", Role.VIEWER, lags=_lags, of_stream=_of_stream)
async def get_events(call: Call, path: StreamPath, query: EventsQuery) -> EventPage:
    """Rows of a stream, with what was lost of it in their time."""
    table = stream_named(call, path)
    task, machines = await of_task(call, query.task, await machines_named(call, query.machine))
    wanted = EventQuery(
        table,
        condition_of(query.where, table),
        since=query.since,
        until=query.until,
        machines=machines,
        task=task,
        order=Order(query.order),
        limit=query.limit,
        cursor=query.cursor or "",
    )
    page = await call[READER].page(wanted)
    losses = await _losses(call, wanted)
    return EventPage(events=page.events, next=page.next or None, more=page.more, losses=losses)


async def _losses(call: Call, query: EventQuery) -> list[Loss | NotRecorded]:
    where = {
        "stream": query.table.name,
        "machines": query.machines,
        "task": query.task,
        "since": query.since,
        "until": query.until,
    }
    database = call[DATABASE]
    found: list[Loss | NotRecorded] = [Loss(**row) for row in await database.fetch("stream_losses", where)]
    about = {**where, "probe": query.table.probe, "most": MOST_GAPS}
    gaps = [] if query.cursor else await database.fetch("stream_gaps", about)
    return [*found, *(NotRecorded(**gap) for gap in gaps)]
