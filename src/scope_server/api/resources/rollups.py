"""Counts, sums and percentiles per minute, as time series or ranking."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.streams import OF_MACHINE, Rows, StreamPath, stream_named, title
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Moment, NodeName, Parameters, Whole
from scope_server.api.routing.route import PREFIX, OfStream, Routes
from scope_server.store.rollups.query import MACHINE, MOST_GROUPS, Every, Ranked, checked
from scope_server.store.rollups.reader import Rollups
from scope_server.store.schema.columns import StreamTable

ROUTES = Routes()

_TOP = 10
_QUANTILES = "p50 and p99 are estimated from a histogram in powers of two; points have p99 only with order=p99"


class RollupQuery(Parameters):
    """Which totals."""

    since: Annotated[Moment, Field(description="default: an hour before `until`")] | None = None
    until: Annotated[Moment, Field(description="default: now")] | None = None
    every: Annotated[Every, Field(description="the step of a series; without it, only totals")] | None = None
    by: Annotated[str, Field(description="columns to group by, separated by commas")] | None = None
    machine: NodeName | None = None
    top: Whole = Field(_TOP, ge=1, le=MOST_GROUPS, description="how many groups")
    order: Ranked = "count"


class Totals(BaseModel):
    """What is added up: `failed` if the stream tells failures, the others but `count` if it has a measured column."""

    count: int
    failed: int = 0
    sum: int | None = None
    mean: float | None = None
    p50: float | None = None
    p99: float | None = None


class Point(Totals):
    """The totals of a step."""

    time: datetime


class Group(Totals):
    """The totals of a group and, with `every`, a point for each step."""

    points: list[Point] = []


class Rollup(Answer):
    """The top groups of a stream."""

    since: datetime
    until: datetime
    every: str | None
    counted: str = Field(description="what is counted")
    measured: str | None = Field(description="what is added up")
    quantiles: str | None = Field(description="how exact percentiles are")
    groups: Rows


def _of_stream(table: StreamTable) -> OfStream:
    keys = [*table.rollup.by, MACHINE]
    columns: dict[str, Any] = {
        f"key_{number}": (str | None, Field(None, alias=key, description=table.meanings.get(key, "")))
        for number, key in enumerate(table.rollup.by)
    }
    columns |= {name: (str, Field("", description=meaning)) for name, meaning in OF_MACHINE.items()}
    group = create_model(title(table, "Group"), __base__=Group, **columns)
    answer = create_model(title(table, "Rollup"), __base__=Rollup, groups=(list[group], ...))  # type: ignore[valid-type]
    by = Annotated[str, Field(description=f"columns to group by, separated by commas: {', '.join(keys)}")]
    query = create_model(title(table, "RollupQuery"), __base__=RollupQuery, by=(by | None, None))
    return OfStream(f"Totals of {table.name}, per minute or longer", answer, query)


@ROUTES.get(f"{PREFIX}/rollups/{{stream}}", Role.VIEWER, of_stream=_of_stream)
async def get_rollup(call: Call, path: StreamPath, query: RollupQuery) -> Rollup:
    """The top groups of a stream with their totals and, with `every`, a point for each step."""
    table = stream_named(call, path)
    wanted = checked(
        table,
        since=query.since,
        until=query.until,
        every=query.every,
        by=query.by.split(",") if query.by else (),
        machines=await machines_named(call, query.machine),
        order=query.order,
        top=query.top,
    )
    rollup = table.rollup
    return Rollup(
        since=wanted.since,
        until=wanted.until,
        every=query.every,
        counted=table.meanings[rollup.count] if rollup.count else "rows",
        measured=table.meanings[rollup.measured] if rollup.measured else None,
        quantiles=_QUANTILES if rollup.measured else None,
        groups=await Rollups(call[DATABASE]).groups(wanted),
    )
