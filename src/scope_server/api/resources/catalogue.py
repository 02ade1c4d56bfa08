"""The streams that the server knows, also those that agents described: what pages about any stream are made from."""

from typing import Literal

from pydantic import Field

from scope_catalogue.stream import DescribedStream, TypedColumn
from scope_server.accounts.caller import Role
from scope_server.api.context import TABLES
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.store.schema.columns import StreamTable

ROUTES = Routes()


class StreamColumn(Answer):
    """A column of a stream."""

    name: str
    type: str = Field(description="as Arrow names it")
    unit: str = Field(description="such as ns or bytes")
    meaning: str
    hex: bool = Field(description="values are shown in hexadecimal")
    stack: bool = Field(description="the texts are call stacks, outermost frame first, separated by semicolons")


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
    rollup: AddedUp
    failed: str = Field(description="a filter of the rows that failed; empty: none do")
    flame: FlameGraph | None = Field(description="null: its rows have no stacks")


class KnownStreams(Answer):
    """Streams by name."""

    streams: list[KnownStream]


@ROUTES.get(f"{PREFIX}/streams", Role.VIEWER)
async def get_streams(call: Call) -> KnownStreams:
    """All streams with their columns, how rows are added up, and whether they have flame graphs."""
    return KnownStreams(streams=[_known(table) for _, table in sorted(call[TABLES].items())])


def _known(table: StreamTable) -> KnownStream:
    stream, rollup = table.described, table.rollup
    return KnownStream(
        name=stream.name,
        probe=stream.probe,
        mode=stream.mode.value,
        meaning=stream.meaning,
        columns=[_column(column) for column in stream.columns],
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
    )


def _flame(stream: DescribedStream) -> FlameGraph | None:
    flame = stream.shown.flame
    return FlameGraph(weight=flame.weight or None, title=flame.title or stream.meaning) if flame else None
