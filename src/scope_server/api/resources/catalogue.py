"""The streams that the server knows, also those that agents described: what pages about any stream are made from."""

from typing import Literal

from pydantic import Field

from scope_catalogue.codes import Codes
from scope_catalogue.stream import OF_PROCESS, DescribedStream, TypedColumn
from scope_server.accounts.caller import Role
from scope_server.api.context import TABLES
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.store.schema.columns import StreamTable

ROUTES = Routes()

CodesName = Literal["error", "signal"]
_NAMES: dict[Codes, CodesName] = {Codes.ERROR: "error", Codes.SIGNAL: "signal"}
_CODES: dict[CodesName, list[str]] = {name: sorted(codes.numbers) for codes, name in _NAMES.items()}


class StreamColumn(Answer):
    """A column of a stream."""

    name: str
    type: str = Field(description="as Arrow names it")
    unit: str = Field(description="such as ns or bytes")
    meaning: str
    hex: bool = Field(description="values are shown in hexadecimal")
    stack: bool = Field(description="the texts are call stacks, outermost frame first, separated by semicolons")
    cut_if: str | None = Field(
        description="the column that is true in rows in which this path lacks its beginning, or this list its end"
    )
    codes: CodesName | None = Field(description="whose names its numbers have: a filter takes them")


class AddedUp(Answer):
    """How a stream's rows are added up by the minute."""

    by: list[str] = Field(description="columns that make a group, beside the machine")
    measured: str | None = Field(description="the column that is added up")


class FlameGraph(Answer):
    """How a stream's rows make a flame graph."""

    weight: str | None = Field(description="the column that is added up; null: rows are counted")
    title: str


class KnownStream(Answer):
    """A stream."""

    name: str
    probe: str
    mode: Literal["events", "summary", "samples"]
    meaning: str
    columns: list[StreamColumn]
    of_process: list[StreamColumn] = Field(description="what a filter can name beside columns, of the rows' processes")
    rollup: AddedUp
    failed: str = Field(description="a filter of the rows that failed; empty: none do")
    flame: FlameGraph | None = Field(description="null: its rows have no stacks")


class KnownStreams(Answer):
    """Streams by name."""

    streams: list[KnownStream]
    codes: dict[CodesName, list[str]] = Field(description="names of errors and of signals, as filters take them")


@ROUTES.get(f"{PREFIX}/streams", Role.VIEWER)
async def get_streams(call: Call) -> KnownStreams:
    """All streams with their columns, how rows are added up, and whether they have flame graphs."""
    return KnownStreams(streams=[_known(table) for _, table in sorted(call[TABLES].items())], codes=_CODES)


def _known(table: StreamTable) -> KnownStream:
    stream, rollup = table.described, table.rollup
    more = stream.with_processes(OF_PROCESS).columns[len(stream.columns) :]
    return KnownStream(
        name=stream.name,
        probe=stream.probe,
        mode=stream.mode.value,
        meaning=stream.meaning,
        columns=[_column(column) for column in stream.columns],
        of_process=[_column(column) for column in more],
        rollup=AddedUp(by=list(rollup.by), measured=rollup.measured or None),
        failed=stream.failed,
        flame=_flame(stream),
    )


def _column(column: TypedColumn) -> StreamColumn:
    return StreamColumn(
        name=column.name,
        type=column.type,
        unit=column.unit,
        meaning=column.meaning,
        hex=column.hex,
        stack=column.stack,
        cut_if=column.cut_if or None,
        codes=_NAMES[column.codes] if column.codes else None,
    )


def _flame(stream: DescribedStream) -> FlameGraph | None:
    flame = stream.shown.flame
    return FlameGraph(weight=flame.weight or None, title=flame.title or stream.meaning) if flame else None
