"""Timelines of many streams and machines, on one clock."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Literal, Protocol

import pyarrow as pa
from pydantic import Field

from scope_catalogue.nearest import unknown
from scope_catalogue.stream import DescribedStream
from scope_server.accounts.caller import Role
from scope_server.api.context import COLUMNS, TABLES
from scope_server.api.resources.losses import LossInTime, losses_of
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.window import TaskId, TimesQuery, of_task, times_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import NodeName, Streamed
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import InvalidQuery
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.chrome import ChromeTrace
from scope_views.perfetto.machines import PerfettoOfMachines

ROUTES = Routes()

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_STREAMS = 50
_ROWS = 4096  # that are drawn at a time


class TraceQuery(TimesQuery):
    """Which timelines."""

    streams: Annotated[str, Field(description="their names, separated by commas; default: all with a timeline")] = ""
    machine: NodeName | None = None
    task: TaskId | None = None
    format: Annotated[
        Literal["perfetto", "chrome"], Field(description="Perfetto's protobuf format, or JSON of Chrome's trace viewer")
    ] = "perfetto"


class Trace(Streamed):
    """A trace."""

    MEDIA: ClassVar[tuple[str, ...]] = ("application/x-perfetto-trace", "application/json")


class _Drawn(Protocol):
    """A trace as it is drawn: pieces of a file."""

    def begin(self) -> bytes: ...
    def rows(self, stream: DescribedStream, batch: pa.RecordBatch) -> bytes: ...
    def loss(self, stream: str, told: str, machine: tuple[str, str], begin_ns: int, end_ns: int) -> bytes: ...
    def end(self) -> bytes: ...


@ROUTES.get(f"{PREFIX}/trace", Role.VIEWER)
async def get_trace(call: Call, query: TraceQuery) -> Trace:
    """The timelines of streams, for https://ui.perfetto.dev: each machine has its own processes and CPUs, on one clock.

    Losses are slices on tracks of their own.
    """
    since, until = times_of(query)
    task, machines = await of_task(call, query.task, await machines_named(call, query.machine))
    wanted = [
        Selection(table, since=since, until=until, machines=machines, task=task)
        for table in _chosen(call[TABLES], query.streams)
    ]
    since_ns = _ns(since)
    is_perfetto = query.format == "perfetto"
    drawn: _Drawn = PerfettoOfMachines(since_ns) if is_perfetto else ChromeTrace(since_ns)
    return Trace(
        content_type=Trace.MEDIA[0 if is_perfetto else 1],
        filename="trace.perfetto" if is_perfetto else "trace.json",
        pieces=_pieces(call, wanted, drawn, until),
    )


async def _pieces(
    call: Call, wanted: Sequence[Selection], drawn: _Drawn, until: datetime
) -> AsyncGenerator[bytes, None]:
    yield drawn.begin()
    for selection in wanted:
        stream = selection.table.described
        async with aclosing(call[COLUMNS].batches(selection)) as batches:
            async for batch in batches:
                for place in range(0, batch.num_rows, _ROWS):
                    yield await asyncio.to_thread(drawn.rows, stream, batch.slice(place, _ROWS))
        for loss in await losses_of(call, selection):
            begin_ns, end_ns = _ns(loss.since), _ns(min(loss.until or until, until))
            machine = (loss.machine_id, loss.hostname)
            yield drawn.loss(loss.stream, _told(loss), machine, begin_ns, max(begin_ns + 1000, end_ns))
    yield drawn.end()


def _told(loss: LossInTime) -> str:
    return f"{loss.count:,} lost ({loss.reason})" if loss.count is not None else "not recorded"


def _chosen(tables: Mapping[str, StreamTable], names: str) -> list[StreamTable]:
    """The tables of streams that have timelines."""
    drawn = sorted(name for name in tables if not tables[name].described.shown.timeline.is_empty)
    chosen = [*dict.fromkeys(names.split(","))] if names else drawn
    if strange := [name for name in chosen if name not in drawn]:
        raise InvalidQuery(unknown("stream with a timeline", strange[0], drawn), parameter="streams")
    if len(chosen) > _MOST_STREAMS:
        raise InvalidQuery(f"name at most {_MOST_STREAMS} streams", parameter="streams")
    return [tables[name] for name in chosen]


def _ns(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND * 1000
