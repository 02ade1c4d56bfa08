"""The slowest rows of a stream, and what is different about each."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import Field, create_model

from scope_catalogue.tables import SlowestRows
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, READER
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
from scope_server.api.resources.window import WindowQuery, selection_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Recorded, Whole
from scope_server.api.routing.rates import WORK
from scope_server.api.routing.route import PREFIX, OfStream, Routes, always
from scope_server.api.routing.tables import Declared, Table, TableQuery
from scope_server.errors import InvalidQuery
from scope_server.store.answers.slowest import Slowest, batch_of, shown_as, slowest
from scope_server.store.schema.columns import StreamTable
from scope_views.quantities import duration
from scope_views.tables.slowest import Usual
from scope_views.tables.unusual import Values

ROUTES = Routes()

MOST = 100
_MOST_DIFFERS = 6  # of a row

Value = str | int | float | bool | None


class SlowestQuery(WindowQuery, TableQuery):
    """Which rows."""

    limit: Whole = Field(10, ge=1, le=MOST, description="how many rows")


class Differs(Answer):
    """A value that most rows do not have."""

    column: str
    value: Value
    usual: Value = Field(description="the median of numbers; else the value that most rows have")
    sentence: str


class SlowRow(Answer):
    """A row that took long."""

    row: Rows
    longer_ns: int = Field(description="than the median row")
    differs: list[Differs] = Field(description="what slowed it first, then what took longer, then what else is unusual")


class SlowRows(Recorded, Table):
    """The slowest rows, the slowest first."""

    duration: str = Field(description="the column of the rows' duration")
    median_ns: int
    read: int = Field(description="rows that were looked at")
    complete: bool = Field(description="these are all stored rows of the window")
    compared: int = Field(description="rows, evenly chosen, that tell what is usual")
    slowest: list[SlowRow]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, each with what differs in words."""
        for slow in self.slowest:
            differs = "; ".join(each.sentence for each in slow.differs)
            yield {**slow.row, "longer_ns": slow.longer_ns, "differs": differs}


def _of_stream(table: StreamTable) -> OfStream | None:
    try:
        shown_as(table)
    except InvalidQuery:
        return None
    row = row_model(title(table, "SlowestEvent"), _columns(table))
    slow = create_model(title(table, "SlowRow"), __base__=SlowRow, row=(row, ...))
    answer = create_model(title(table, "SlowRows"), __base__=SlowRows, slowest=(list[slow], ...))  # type: ignore[valid-type]
    return OfStream(f"The slowest rows of {table.name}", answer, SlowestQuery)


def _columns(table: StreamTable) -> dict[str, Declared]:
    return {
        "time": (str, "when it happened, by the machine's clock, to the nanosecond"),
        **texts(OF_MACHINE),
        "task_id": (str | None, "the task that recorded it"),
        **columns_of(table, table.schema.names),
        **of_container(table),
    }


def _columns_of_files(table: StreamTable) -> dict[str, Declared]:
    of_row = SlowRow.model_fields
    return {
        **_columns(table),
        "time": (datetime, "when it happened, by the machine's clock"),
        "longer_ns": (int, of_row["longer_ns"].description or ""),
        "differs": (str, of_row["differs"].description or ""),
    }


@ROUTES.get(f"{PREFIX}/slowest/{{stream}}", Role.VIEWER, lags=always, rate=WORK, of_stream=_of_stream)
async def get_slowest(call: Call, path: StreamPath, query: SlowestQuery) -> SlowRows:
    """The slowest rows of a stream, each with what differs from most rows."""
    table = stream_named(call, path)
    how = shown_as(table)
    wanted = await selection_of(call, table, query)
    async with call[DATABASE].snapshot() as connection:
        found = await slowest(connection, wanted, how, query.limit)
    rows = await call[READER].presented(table, found.rows)
    answer = await asyncio.to_thread(_answer, table, how, found, rows)
    return answer.with_columns(_columns_of_files(table))


def _answer(table: StreamTable, how: SlowestRows, found: Slowest, rows: list[dict[str, Any]]) -> SlowRows:
    usual = Usual(table.described, how)
    sample = found.sample.filter(found.sample[how.duration].is_valid())
    for batch in sample.select([how.duration, *how.parts]).to_batches():
        usual.add(batch)
    skipped = {how.duration, *how.parts, *(column.cut_if for column in table.described.columns)}
    looked_at = [
        each
        for each in table.described.columns
        if each.name in found.sample.column_names and each.name not in skipped and not each.identity
    ]
    values = Values(found.sample, looked_at)
    causes = usual.causes(batch_of(table, rows, sorted(usual.columns)))
    return SlowRows(
        duration=how.duration,
        median_ns=round(usual.median_ns(how.duration)),
        read=found.part.read,
        complete=found.part.complete,
        compared=sample.num_rows,
        slowest=[
            SlowRow(
                row=row,
                longer_ns=max(0, round(usual.longer_ns(row, how.duration))),
                differs=_differs(how, usual, values, row, its)[:_MOST_DIFFERS],
            )
            for row, its in zip(rows, causes, strict=True)
        ],
    )


def _differs(how: SlowestRows, usual: Usual, values: Values, row: dict[str, Any], causes: list[str]) -> list[Differs]:
    found = [Differs(column=how.duration, value=row[how.duration], usual=None, sentence=cause) for cause in causes]
    for name, longer in usual.longer_parts(row).items():
        said = f"{name} is {duration(row[name])}, {duration(longer)} more than usual"
        found.append(Differs(column=name, value=row[name], usual=round(usual.median_ns(name)), sentence=said))
    found += [
        Differs(column=each.column, value=each.value, usual=each.usual, sentence=each.sentence)
        for each in values.of(row)
    ]
    return found
