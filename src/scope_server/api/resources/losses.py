"""What is not among the rows: events that were lost, and times at which a task did not record."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from scope_catalogue.nearest import unknown
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.window import TaskId, TimesQuery, of_task, times_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, NodeName, Recorded, Whole
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.api.routing.tables import Table, TableQuery, flat
from scope_server.errors import UnknownThing
from scope_server.store.reading.selection import Selection

ROUTES = Routes()

_MOST = 1000
_SHOWN = 200  # newest losses beside other answers


class LossesQuery(TimesQuery, TableQuery):
    """Which losses."""

    machine: NodeName | None = None
    stream: Annotated[str, Field(description="only of this stream")] | None = None
    task: TaskId | None = None
    limit: Whole = Field(_MOST, ge=1, le=_MOST)


class LossInTime(Answer):
    """Events that are not stored."""

    stream: str
    place: str = Field(description="where they were lost, such as ring, spool or ingest; agent: nothing recorded them")
    reason: str = Field(description="not_recorded: their task was wanted, but did not run")
    count: int | None = Field(description="null: nobody knows")
    since: datetime
    until: datetime | None = Field(description="of counted losses, the last one is then; null: it goes on")
    task_id: str
    machine_id: str
    hostname: str
    run_ended_by: Literal["shutdown", "killed", "failure"] | None = Field(description="why a task did not record")


class Unrecorded(Answer):
    """A time in which no task recorded."""

    since: datetime
    until: datetime


class Losses(Recorded, Table):
    """Losses, the newest first. Times of counted losses are within a minute, or of a whole gap."""

    ROW = LossInTime
    since: datetime
    until: datetime
    losses: list[LossInTime]
    more: bool = Field(description="whether there are older ones in the window")
    unrecorded: list[Unrecorded] = Field(
        description="with `stream`: when no task recorded it, nor was wanted to; the oldest first, at most `limit`"
    )

    def rows(self) -> Iterator[dict[str, Any]]:
        """The losses."""
        return map(flat, self.losses)


@ROUTES.get(f"{PREFIX}/losses", Role.VIEWER, lags=always)
async def get_losses(call: Call, query: LossesQuery) -> Losses:
    """What was lost or not recorded, and when: of all streams, or of one."""
    since, until = times_of(query)
    tables = call[TABLES]
    if query.stream is not None and query.stream not in tables:
        raise UnknownThing(unknown("stream", query.stream, sorted(tables)), parameter="stream")
    task, machines = await of_task(call, query.task, await machines_named(call, query.machine))
    found = await _fetched(
        call,
        None if query.stream is None else [query.stream],
        since=since,
        until=until,
        machines=machines,
        task=task,
        most=query.limit + 1,
    )
    unrecorded = []
    if query.stream is not None:
        about = {"stream": query.stream, "since": since, "until": until, "machines": machines, "task": task}
        unrecorded = await call[DATABASE].fetch("unrecorded", {**about, "most": query.limit})
    return Losses(
        since=since,
        until=until,
        losses=found[: query.limit],
        more=len(found) > query.limit,
        unrecorded=[Unrecorded(**row) for row in unrecorded],
    )


async def losses_of(call: Call, wanted: Selection) -> list[LossInTime]:
    """The newest losses of a selection that has a begin and an end; its filter plays no part."""
    assert wanted.since
    assert wanted.until
    return await _fetched(
        call,
        [wanted.table.name],
        since=wanted.since,
        until=wanted.until,
        machines=wanted.machines,
        task=wanted.task,
        most=_SHOWN,
    )


async def losses_among(
    call: Call, streams: Collection[str], machine: int, since: datetime, until: datetime
) -> list[LossInTime]:
    """The newest losses of some streams of a machine (by key) in a window."""
    return await _fetched(call, list(streams), since=since, until=until, machines=[machine], task=None, most=_SHOWN)


async def lost_of(call: Call, wanted: Selection) -> list[tuple[str, int | None]]:
    """Why and how many events of a selection's stream and time were lost; None: nobody knows how many."""
    about = {
        "stream": wanted.table.name,
        "probe": wanted.table.probe,
        "machines": wanted.machines,
        "task": wanted.task,
        "since": wanted.since,
        "until": wanted.until,
        "most": 1,
    }
    counted = await call[DATABASE].fetch("stream_losses", about)
    lost: list[tuple[str, int | None]] = [(row["reason"], int(row["count"])) for row in counted]
    return [*lost, ("not_recorded", None)] if await call[DATABASE].fetch("stream_gaps", about) else lost


async def _fetched(
    call: Call,
    streams: list[str] | None,
    *,
    since: datetime,
    until: datetime,
    machines: Sequence[int] | None,
    task: int | None,
    most: int,
) -> list[LossInTime]:
    about = {"streams": streams, "since": since, "until": until, "machines": machines, "task": task, "most": most}
    return [LossInTime(**row) for row in await call[DATABASE].fetch("losses", about)]
