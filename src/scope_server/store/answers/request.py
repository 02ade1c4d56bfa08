"""One row that lasted, such as a request: when, on which thread, and where its time went by what was recorded of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.condition import columns_read
from scope_catalogue.shown import Slices
from scope_catalogue.tables import SlowestRows
from scope_catalogue.where import read_filter
from scope_server.store.answers.asked import Asked, found
from scope_server.store.answers.lasting import lasting_or_refused
from scope_server.store.reading.database import Database
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.matching import matching
from scope_views.why.request import Cause

# By the names of `scope_views.why.request.PARTS`: columns whose values add up to the part. Streams of
# bpf/include/where.bpf.h have them; llama_token has more, as part of a token's time is outside of calls.
_COLUMNS = {
    "on_cpu": ("on_cpu_ns", "outside_on_cpu_ns"),
    "gpu_wait": ("gpu_wait_ns",),
    "run_queue": ("run_queue_ns", "outside_run_queue_ns"),
    "blocked": ("blocked_ns", "outside_blocked_ns"),
    "stopped": ("stopped_ns", "outside_stopped_ns"),
    "unknown": ("unknown_ns", "outside_unknown_ns"),
}
_NEEDED = ("on_cpu_ns", "run_queue_ns", "blocked_ns")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = pa.timestamp("ns", "UTC")


@dataclass(frozen=True)
class Timed:
    """A row with its begin and end, in ns since 1970.

    Attributes:
        row: as people get it.
        slices: how it lasts.
        on_thread: whether the row's own thread was in it from begin to end; else others may have worked on it.
    """

    table: StreamTable
    row: Mapping[str, Any]
    slices: Slices
    begin_ns: int
    end_ns: int
    on_thread: bool

    @property
    def lasted_ns(self) -> int:
        """From begin to end."""
        return self.end_ns - self.begin_ns

    @property
    def name(self) -> str:
        """What it is, for people: `POST /api/chat`, `This request`."""
        named = " ".join(str(self.row[name]) for name in self.slices.named if self.row[name] is not None)
        return named or (f"This {self.slices.text}" if self.slices.text else f"This row of {self.table.name}")

    @property
    def where(self) -> str:
        """A filter that the row meets, and no other but one of the same thread that began at the same time."""
        names = ("pid", "start_ns", *(self.slices.flow.by if self.slices.flow else ()), "tid", "ktime_ns")
        return conditions_on(self.row, dict.fromkeys(names))

    def window(self) -> tuple[datetime, datetime]:
        """Its begin and end as times of a selection, extended to whole microseconds."""
        return _moment(self.begin_ns), _moment(self.end_ns) + timedelta(microseconds=1)


@dataclass(frozen=True)
class Split:
    """Where the time of a row went.

    Attributes:
        by: the stream that tells.
        parts: in ns, by the names of `scope_views.why.request.PARTS`; they add up to the row's time.
        pieces: how many rows tell; 0: the row itself.
    """

    by: str
    parts: Mapping[str, int]
    pieces: int = 0
    causes: tuple[Cause, ...] = ()


def conditions_on(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    """A filter on columns of whole numbers, with the values of a row."""
    return " and ".join(f"{name} = {row[name]}" for name in columns if row.get(name) is not None)


def part_columns(table: StreamTable) -> dict[str, list[str]]:
    """The stream's columns whose values add up to each part of its rows' time; empty: it does not tell them."""
    if not all(map(table.column, _NEEDED)):
        return {}
    there = {part: [name for name in names if table.column(name)] for part, names in _COLUMNS.items()}
    return {part: names for part, names in there.items() if names}


def timed(table: StreamTable, row: Mapping[str, Any]) -> Timed:
    """The row with its times.

    Args:
        row: as people get it.

    Raises:
        InvalidQuery: the stream's rows do not last.
    """
    how = lasting_or_refused(table, "stream")
    slices, on_thread = how.slices, how.of_thread
    if how.by_thread is not None:
        about = pa.table({name: pa.array([row[name]], pa.int64()) for name in columns_read(how.by_thread)})
        on_thread = matching(how.by_thread, about)[0].as_py()
    at_ns = pc.cast(pa.scalar(row["time"]), _TIME).cast(pa.int64()).as_py()
    before, after = (row[slices.lasting], 0) if slices.ending else (0, row[slices.lasting])
    return Timed(table, row, slices, at_ns - before, at_ns + after, on_thread)


def split_of_row(one: Timed) -> Split | None:
    """Where its time went, by its own columns; None: it has none."""
    columns = part_columns(one.table)
    if not columns or all(one.row[name] is None for name in _NEEDED):
        return None
    parts = {part: sum(one.row[name] or 0 for name in names) for part, names in columns.items()}
    return Split(one.table.name, _whole(parts, one.lasted_ns))


def pieces_of(one: Timed, tables: Iterable[StreamTable]) -> StreamTable | None:
    """The stream whose rows follow one of this row, as arrows of a timeline do, and tell where their time went."""
    flow = one.slices.flow
    if flow is None or not flow.begins:
        return None
    return next((table for table in tables if _flows(table, flow.name, flow.by) and part_columns(table)), None)


async def split_by_pieces(database: Database, one: Timed, pieces: StreamTable, machine: int) -> Split | None:
    """Where its time went, by the rows that follow from it; None: there are none.

    Raises:
        QueryTooSlow: the query takes too long.
        StoreUnavailable: the database cannot be reached.
    """
    assert one.slices.flow
    of_row = conditions_on(one.row, ("pid", "start_ns", *one.slices.flow.by))
    since, until = one.window()
    rows = Selection(pieces, read_filter(of_row, pieces.types), since, until, [machine])
    columns = part_columns(pieces)
    cells = ", ".join(["count", *(f"sum({name})" for names in columns.values() for name in names)])
    (group,) = (await found(database, rows, Asked(pieces.name, cells))).groups or [{}]
    if not group:
        return None
    parts = {part: sum(group[name] for name in names) for part, names in columns.items()}
    causes, lasts = [], lasting_or_refused(pieces, "stream").slices.lasting
    for text, condition in _causes(pieces).items():
        its = (await found(database, rows, Asked(pieces.name, f"count, sum({lasts})", (), condition))).groups
        causes += [Cause(text, each["count"], each[lasts]) for each in its]
    causes.sort(key=lambda cause: -cause.ns)
    return Split(pieces.name, _whole(parts, one.lasted_ns), group["count"], tuple(causes))


def _flows(table: StreamTable, name: str, by: tuple[str, ...]) -> bool:
    flows = [each.flow for each in table.described.shown.timeline.slices if each.flow]
    return any(flow.name == name and flow.by == by and not flow.begins for flow in flows)


def _causes(table: StreamTable) -> dict[str, str]:
    """What slows rows of the stream: each with its condition."""
    causes: dict[str, str] = {}
    for each in table.described.shown.tables:
        for condition, text in each.causes.items() if isinstance(each, SlowestRows) else ():
            causes[text] = f"{causes[text]} or {condition}" if text in causes else condition
    return causes


def _whole(parts: Mapping[str, int], lasted_ns: int) -> Mapping[str, int]:
    """The parts, so that they add up: the rest is unknown, too."""
    return {**parts, "unknown": parts.get("unknown", 0) + max(0, lasted_ns - sum(parts.values()))}


def _moment(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)
