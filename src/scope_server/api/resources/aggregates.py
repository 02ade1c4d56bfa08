"""Counts, sums and percentiles of groups of rows, as time series or ranking."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE
from scope_server.api.resources.losses import LossInTime, losses_of
from scope_server.api.resources.streams import OF_MACHINE, StreamPath, columns_of, stream_named, texts
from scope_server.api.resources.window import WindowQuery, selection_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Recorded, Whole
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.api.routing.tables import Declared, Table, TableQuery
from scope_server.store.totals.cells import read_cells
from scope_server.store.totals.question import EVERY, MACHINE, MOST_GROUPS, Every, Question, asked
from scope_server.store.totals.reader import MOST_HISTOGRAMS, MOST_ROWS, Totals
from scope_views.files import Lost

ROUTES = Routes()

_TOP = 10
_CELLS = (
    "what to compute, separated by commas: count, failed, rate (a second), rate(AMOUNT,DURATION) of two columns' sums, "
    "and sum, mean, min, max or a percentile such as p99 or p99.9 of a column: p99(duration_ns)"
)
_ESTIMATED = "percentiles are estimates within a power of two"
_EXACT = "percentiles are exact; of histograms, estimates within a power of two"


class AggregatesQuery(WindowQuery, TableQuery):
    """Which totals."""

    every: Annotated[Every, Field(description="the step of a series; without it, only totals")] | None = None
    by: Annotated[str, Field(description="columns to group by, separated by commas; `machine` is one")] | None = None
    cells: str = Field("count", description=_CELLS)
    order: Annotated[str, Field(description="the cell that ranks the groups; default: the first")] | None = None
    top: Whole = Field(_TOP, ge=1, le=MOST_GROUPS, description="how many groups")


class Point(Answer):
    """The cells of a step; steps without rows have none."""

    time: datetime
    values: dict[str, int | float | None]


class Group(Answer):
    """A group: the values of its columns, its cells, and those of its steps."""

    key: dict[str, str | int | float | bool | None]
    values: dict[str, int | float | None]
    points: list[Point]


class Aggregates(Recorded, Table):
    """The top groups of a stream."""

    since: datetime = Field(description="times are extended to whole steps, or minutes of rollups")
    until: datetime
    step_s: int | None
    counted: str = Field(description="what is counted")
    only: str | None = Field(description="which rows the stream's totals are of; null: all")
    quantiles: str = Field(description="how exact percentiles are")
    source: Literal["rollups", "rows"]
    complete: bool = Field(description="false: rows before `read_since` are not in it")
    read_since: datetime = Field(
        description=f"at most {MOST_ROWS:,} rows are read, {MOST_HISTOGRAMS:,} with histograms, the newest"
    )
    groups: list[Group]
    losses: list[LossInTime] = Field(description="of this time, which the totals lack: the newest")

    def rows(self) -> Iterator[dict[str, Any]]:
        """The groups, or the points of all groups."""
        for group in self.groups:
            if self.step_s is None:
                yield {**group.key, **group.values}
            for point in group.points:
                yield {"time": point.time, **group.key, **point.values}

    def lost(self) -> list[Lost]:
        """The losses, by their reasons."""
        reasons = dict.fromkeys(loss.reason for loss in self.losses)
        counts = {reason: [loss.count for loss in self.losses if loss.reason == reason] for reason in reasons}
        known = {reason: [count for count in its if count is not None] for reason, its in counts.items()}
        return [
            (reason, sum(known[reason]) if len(known[reason]) == len(its) else None) for reason, its in counts.items()
        ]


@ROUTES.get(f"{PREFIX}/aggregates/{{stream}}", Role.VIEWER, lags=always)
async def get_aggregates(call: Call, path: StreamPath, query: AggregatesQuery) -> Aggregates:
    """The top groups of a stream with their totals and, with `every`, a point for each step.

    Rollups by the minute answer if they have all that is asked for; otherwise rows are read.
    """
    table = stream_named(call, path)
    question = asked(
        await selection_of(call, table, query),
        cells=read_cells(query.cells, table),
        by=query.by.split(",") if query.by else (),
        every=query.every,
        order=query.order or "",
        top=query.top,
    )
    found = await Totals(call[DATABASE]).groups(question)
    count = table.rollup.count
    return Aggregates(
        since=question.since,
        until=question.until,
        step_s=EVERY[query.every] if query.every else None,
        counted=table.meanings[count] if count else "rows",
        only=table.rollup.where or None,
        quantiles=_ESTIMATED if found.source == "rollups" else _EXACT,
        source=found.source,
        complete=found.complete,
        read_since=found.read_since,
        groups=[
            Group(
                key=group.key,
                values=group.values,
                points=[Point(time=time, values=values) for time, values in group.points],
            )
            for group in found.groups
        ],
        losses=await losses_of(call, question.rows),
    ).with_columns(_columns(question))


def _columns(question: Question) -> dict[str, Declared]:
    """The columns of the rows, if there are any."""
    table = question.table
    found: dict[str, Declared] = {"time": (datetime, "begin of the step")} if question.every_s else {}
    for name in question.by:
        if name == MACHINE and name not in table.schema.names:
            found |= texts(OF_MACHINE)
        else:
            found |= columns_of(table, [name]) if name in table.schema.names else {name: (str, "")}
    whole = ("count", "failed", "sum", "min", "max")
    return found | {cell.text: (int if cell.word in whole else float, "") for cell in question.cells}
