"""Timelines of many streams and machines, on one clock."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import pyarrow as pa
from pydantic import Field

from scope_catalogue.condition import Condition
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.nearest import unknown
from scope_catalogue.stream import DescribedStream
from scope_catalogue.where import LONGEST, read_filter
from scope_server.accounts.caller import Role
from scope_server.api.context import ANNOTATIONS, COLUMNS, TABLES
from scope_server.api.resources.losses import LossInTime, losses_of
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.window import TaskId, TimesQuery, of_task, times_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Streamed
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.errors import InvalidQuery
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.annotations import Annotation
from scope_views.perfetto.machines import PerfettoOfMachines

ROUTES = Routes()

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_STREAMS = 50
_MOST_ANNOTATIONS = 10_000
_ROWS = 4096  # that are drawn at a time


class TraceQuery(TimesQuery):
    """Which timelines."""

    streams: Annotated[str, Field(description="their names, separated by commas; default: all with a timeline")] = ""
    machine: Annotated[str, Field(description="hostnames or ids, separated by commas; default: all")] | None = None
    task: TaskId | None = None
    where: (
        Annotated[
            str,
            Field(
                max_length=LONGEST,
                description="a filter on rows, such as: pid = 4711; of streams that lack its columns, nothing is drawn",
                examples=["ktime_ns > 0"],
            ),
        ]
        | None
    ) = None
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
    def annotations(self, told: Sequence[Annotation]) -> bytes: ...
    def end(self) -> bytes: ...


class _Window(NamedTuple):
    """The time that is drawn, and the machines; None: all."""

    since: datetime
    until: datetime
    machines: Sequence[int] | None


@ROUTES.get(f"{PREFIX}/trace", Role.VIEWER, lags=always)
async def get_trace(call: Call, query: TraceQuery) -> Trace:
    """The timelines of streams, for https://ui.perfetto.dev: processes and CPUs of each machine, on one clock.

    Losses and annotations are slices on tracks of their own; the newest 10,000 annotations are drawn.
    """
    since, until = times_of(query)
    task, machines = await of_task(call, query.task, await _machines(call, query.machine))
    wanted = [
        Selection(table, where, since, until, machines, task)
        for table, where in _filtered(_chosen(call[TABLES], query.streams), query.where)
    ]
    since_ns = _ns(since)
    is_perfetto = query.format == "perfetto"
    drawn = await asyncio.to_thread(_drawing, is_perfetto, since_ns)
    return Trace(
        content_type=Trace.MEDIA[0 if is_perfetto else 1],
        filename="trace.perfetto" if is_perfetto else "trace.json",
        pieces=_pieces(call, wanted, drawn, _Window(since, until, machines)),
    )


def _drawing(is_perfetto: bool, since_ns: int) -> _Drawn:
    if is_perfetto:
        return PerfettoOfMachines(since_ns)
    from scope_views.chrome import ChromeTrace  # noqa: PLC0415  # its polars takes 0.3 s and 33 MB

    return ChromeTrace(since_ns)


async def _machines(call: Call, names: str | None) -> list[int] | None:
    """The keys of all machines with these hostnames or ids; None: of all."""
    if names is None:
        return None
    return sorted({key for name in names.split(",") for key in await machines_named(call, name) or []})


async def _pieces(
    call: Call, wanted: Sequence[Selection], drawn: _Drawn, window: _Window
) -> AsyncGenerator[bytes, None]:
    until = window.until
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
    rows = await call[ANNOTATIONS].find(
        since=window.since, until=until, machines=window.machines, most=_MOST_ANNOTATIONS
    )
    yield await asyncio.to_thread(drawn.annotations, [_annotation(row, window) for row in rows])
    yield drawn.end()


def _annotation(row: Mapping[str, Any], window: _Window) -> Annotation:
    """What is drawn of an annotation: its part within the window."""
    labels = " ".join(f"{name}={value}" for name, value in sorted(row["labels"].items()))
    return Annotation(
        text=f"{row['text']} {labels}".strip(),
        begin_ns=_ns(max(row["time"], window.since)),
        end_ns=_ns(min(row["until"], window.until)) if row["until"] else None,
        machine=(row["machine_id"], row["hostname"]) if row["machine_id"] else None,
    )


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


def _filtered(tables: Sequence[StreamTable], where: str | None) -> list[tuple[StreamTable, Condition | None]]:
    """The tables that have all columns of a filter, with the condition that it is on each."""
    found: list[tuple[StreamTable, Condition | None]] = []
    refused: list[InvalidFilter] = []
    for table in tables:
        try:
            found.append((table, read_filter(where, table.types) if where is not None else None))
        except InvalidFilter as error:
            refused.append(error)
    if refused and not found:  # what is wrong with it for the stream that it suits best
        raise InvalidQuery(str(max(refused, key=lambda error: error.place)), parameter="where")
    return found


def _ns(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND * 1000
