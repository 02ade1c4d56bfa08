"""Heatmaps: how many values of each size a column has, over time."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE
from scope_server.api.resources.losses import LossInTime, losses_of
from scope_server.api.resources.streams import StreamPath, stream_named
from scope_server.api.resources.window import WindowQuery, selection_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Recorded, Whole
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.errors import InvalidQuery
from scope_server.store.totals.cells import histogram_of, number_column
from scope_server.store.totals.heatmap import heatmap
from scope_server.store.totals.reader import MOST_HISTOGRAMS, MOST_ROWS

ROUTES = Routes()

_MOST_COLUMNS = 400


class HeatmapQuery(WindowQuery):
    """Which heatmap."""

    column: Annotated[str, Field(description="default: the one that rollups measure")] | None = None
    columns: Whole = Field(200, ge=1, le=_MOST_COLUMNS, description="at most so many steps of time")


class Heatmap(Recorded):
    """Counts by step of time and size."""

    since: datetime = Field(description="the begin of the first step: times are extended to whole steps")
    until: datetime
    step_s: float
    column: str
    unit: str
    edges: list[int] = Field(description="the least value of each size: 0, or powers of two; less counts as the first")
    counts: list[list[int]] = Field(description="of each step, of each size")
    source: Literal["rollups", "rows"]
    complete: bool = Field(description="false: rows before `read_since` are not counted")
    read_since: datetime = Field(
        description=f"at most {MOST_ROWS:,} rows are read, {MOST_HISTOGRAMS:,} with histograms, the newest"
    )
    losses: list[LossInTime] = Field(description="of this time, which the counts lack: the newest")


@ROUTES.get(f"{PREFIX}/heatmap/{{stream}}", Role.VIEWER, lags=always)
async def get_heatmap(call: Call, path: StreamPath, query: HeatmapQuery) -> Heatmap:
    """How many values of each size a column has in each step: from rollups by the minute, or from rows."""
    table = stream_named(call, path)
    wanted = await selection_of(call, table, query)
    column = query.column or table.rollup.measured
    if not column:
        raise InvalidQuery(f"{table.name} has no measured column; name one", parameter="column")
    if not histogram_of(table, column):
        number_column(table, column, "column")
    found = await heatmap(call[DATABASE], wanted, column, query.columns)
    return Heatmap(
        since=found.since,
        until=found.until,
        step_s=found.step.total_seconds(),
        column=column,
        unit=table.types[column].unit,
        edges=found.edges,
        counts=found.counts,
        source=found.source,
        complete=found.complete,
        read_since=found.read_since,
        losses=await losses_of(call, wanted),
    )
