"""What differs between two sets of rows of a stream."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.during import DuringQuery, with_times
from scope_server.api.resources.streams import StreamPath, stream_named
from scope_server.api.resources.window import others, selection_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Recorded
from scope_server.api.routing.rates import WORK
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.api.routing.tables import Table, TableQuery
from scope_server.errors import InvalidQuery
from scope_server.store.answers.comparison import MOST_ROWS, comparison
from scope_server.store.answers.sample import Sample
from scope_server.store.schema.columns import StreamTable
from scope_views.comparison import longer
from scope_views.comparison.compare import Differing

ROUTES = Routes()

_SHARE = Field(ge=0, le=1)
_SURE = (
    "1 - p, with p of Fisher's exact test (the value that differs most) or of the Kolmogorov-Smirnov test, times the "
    "number of columns. The tests take rows for independent, or if not all blocks were read, blocks"
)
_DIFFERENCE = "of the distributions: total variation (shares of values) or Kolmogorov-Smirnov distance (numbers)"


class RowsRead(Answer):
    """How many rows there are on a side, and how many of them were compared."""

    rows: int = Field(description="an estimate if not `complete`")
    read: int = Field(description=f"at most about {MOST_ROWS:,}, evenly chosen over the window")
    complete: bool = Field(description="all stored rows of the window were looked at to find those of the filter")


class Shares(Answer):
    """A value, and the share of the rows that have it."""

    value: str | None = Field(description="null: rows without a value")
    inside: float = _SHARE
    outside: float = _SHARE


class Quantiles(Answer):
    """Of the rows that have the number; null: none has."""

    p50: float | None
    p90: float | None
    p99: float | None


class Numbers(Answer):
    """The numbers of a column."""

    inside: Quantiles
    outside: Quantiles


class ColumnDifference(Answer):
    """A column whose values differ."""

    column: str
    meaning: str
    unit: str
    difference: Annotated[float, Field(ge=0, le=1, description=_DIFFERENCE)]
    sure: Annotated[float, Field(ge=0, le=1, description=_SURE)]
    values: list[Shares] = Field(description="those whose shares differ most; of numbers, none")
    numbers: Numbers | None


class PartTime(Answer):
    """A part of the rows' duration, in ns of the mean row."""

    column: str
    meaning: str
    inside_ns: float
    outside_ns: float


class Cause(Answer):
    """What slows rows, with the share of rows that it slowed."""

    text: str
    inside: float = _SHARE
    outside: float = _SHARE


class Longer(Answer):
    """What rows inside took longer for, in the mean."""

    duration: PartTime
    parts: list[PartTime] = Field(description="those that took longer, the most first; they do not overlap")
    causes: list[Cause] = Field(description="those that slowed a larger share of the rows inside")


class FrameDifference(Answer):
    """A frame of the stacks, and the share of the rows with a stack in whose stack it is."""

    column: str
    frame: str
    inside: float = _SHARE
    outside: float = _SHARE
    sure: Annotated[float, Field(ge=0, le=1, description="1 - p of Fisher's exact test, times the number of frames")]


class DifferenceRow(Answer):
    """One difference, where the answer is a table."""

    of: Literal["duration", "part", "cause", "value", "quantile", "frame"] = Field(
        description="what differs: the mean duration or a part of it; the share of a cause, a value or a frame; a "
        "quantile of a number"
    )
    column: str | None = Field(description="null: a cause")
    value: str | None = Field(description="the value, frame or cause, or p50, p90 or p99; null: no value")
    inside: float | None = Field(description="the share; of durations ns, of quantiles the number in the column's unit")
    outside: float | None = Field(description="the same of the others")
    unit: str = Field(description="empty: a share")
    difference: float | None = Field(description="of the column's distributions; null: it is not about distributions")
    sure: float | None


class DifferenceQuery(DuringQuery, TableQuery):
    """Rows that are compared, and with which others."""


class Difference(Recorded, Table):
    """What differs inside from outside."""

    ROW = DifferenceRow

    inside: RowsRead
    outside: RowsRead
    longer: Longer | None = Field(
        description="null: rows inside took no longer, or the stream does not say what its times consist of"
    )
    columns: list[ColumnDifference] = Field(description="by `difference` times `sure`, the largest first")
    stacks: list[str] = Field(description="columns of stacks that rows have: /flamegraph shows their difference")
    samples: list[str] | None = Field(
        description="where rows have no stacks: streams with stacks that were sampled while rows inside lasted; "
        "/flamegraph of each shows the difference, with this stream as `of`. null: rows have stacks, or do not last"
    )
    frames: list[FrameDifference] = Field(
        description="of each of these columns, those whose shares differ most: by the difference times `sure`"
    )

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Longer times, then the values and quantiles of each column, then frames: each by itself, in this order."""
        if self.longer:
            duration, parts = self.longer.duration, self.longer.parts
            for of, one in (("duration", duration), *(("part", part) for part in parts)):
                times = {"inside": one.inside_ns, "outside": one.outside_ns}
                yield {"of": of, "column": one.column, "unit": "ns", **times}
            for cause in self.longer.causes:
                yield {"of": "cause", "value": cause.text, **_shares(cause)}
        for each in self.columns:
            told = {"column": each.column, "difference": each.difference, "sure": each.sure}
            for value in each.values:
                yield {"of": "value", **told, "value": value.value, **_shares(value)}
            if each.numbers:
                for name in Quantiles.model_fields:
                    its = {side: getattr(getattr(each.numbers, side), name) for side in ("inside", "outside")}
                    yield {"of": "quantile", **told, "value": name, "unit": each.unit, **its}
        for frame in self.frames:
            yield {"of": "frame", "column": frame.column, "value": frame.frame, "sure": frame.sure, **_shares(frame)}


@ROUTES.get(f"{PREFIX}/compare/{{stream}}", Role.VIEWER, lags=always, rate=WORK)
async def get_difference(call: Call, path: StreamPath, query: DifferenceQuery) -> Difference:
    """What differs between rows of a window and filter (inside) and others (outside), the most different first.

    Without `against_...`, the others are the other rows of the same window. Columns are compared by the distance of
    their distributions, and ordered by it, weighted by how sure it is. Left out are ids, times, and what the filters
    name. The same rows have the same answer.
    """
    table, query = stream_named(call, path), await with_times(call, query)
    if query.where is None and not query.has_others:
        detail = "it says what is compared with the rest: give a filter, or another window, such as with against_since"
        raise InvalidQuery(detail, parameter="where")
    inside = await selection_of(call, table, query)
    async with call[DATABASE].snapshot() as connection:
        found = await comparison(connection, inside, others(inside, query), call[TABLES].values())
    return Difference(
        inside=_read(found.inside),
        outside=_read(found.outside),
        longer=_longer(table, found.longer) if found.longer else None,
        columns=[_shown(table, each) for each in found.columns],
        stacks=list(found.stacks),
        samples=None if found.samples is None else list(found.samples),
        frames=[
            FrameDifference(
                column=column,
                frame=found.texts.get(one.frame, ""),
                inside=round(one.inside, 4),
                outside=round(one.outside, 4),
                sure=round(one.sure, 6),
            )
            for column, frames in found.frames.items()
            for one in frames
        ],
    )


def _shares(one: Shares | Cause | FrameDifference) -> dict[str, Any]:
    return {"inside": one.inside, "outside": one.outside, "unit": ""}


def _read(side: Sample) -> RowsRead:
    return RowsRead(rows=side.estimate, read=side.rows.num_rows, complete=side.part.complete)


def _longer(table: StreamTable, found: longer.Longer) -> Longer:
    def shown(part: longer.PartTime) -> PartTime:
        meaning = table.described.by_name[part.column].meaning
        return PartTime(column=part.column, meaning=meaning, inside_ns=part.inside_ns, outside_ns=part.outside_ns)

    return Longer(
        duration=shown(found.duration),
        parts=[shown(part) for part in found.parts],
        causes=[Cause(text=one.text, inside=one.inside, outside=one.outside) for one in found.causes],
    )


def _shown(table: StreamTable, each: Differing) -> ColumnDifference:
    described = table.described.by_name.get(each.column.name)
    numbers = None
    if each.numbers:
        inside, outside = (
            Quantiles(**{name: its.get(name) for name in Quantiles.model_fields}) for its in each.numbers
        )
        numbers = Numbers(inside=inside, outside=outside)
    return ColumnDifference(
        column=each.column.name,
        meaning=each.column.meaning,
        unit=described.unit if described else "",
        difference=round(each.difference, 4),
        sure=round(each.sure, 6),
        values=[
            Shares(value=one.value, inside=round(one.inside, 4), outside=round(one.outside, 4)) for one in each.values
        ],
        numbers=numbers,
    )
