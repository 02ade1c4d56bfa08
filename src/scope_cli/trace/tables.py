"""A trace as tables: one sink that adds up, and the lines that show what it has added up."""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from scope_catalogue.stream import Column as StreamColumn
from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import Cell, Count, Failed, Inclusive, Quantiles, Rate, Share, Sum
from scope_cli.quantities import aligned
from scope_cli.text_table import EXTRA, Column, Layout, Part, laid_out
from scope_cli.trace.headings import headings_of
from scope_views.groups import Group
from scope_views.tables.aggregate import Aggregate
from scope_views.tables.durations import Durations
from scope_views.tables.latest import Latest
from scope_views.tables.slowest import Slowest
from scope_views.tables.tables import Tables, View

SHOWN_GROUPS = 20
_SHOWN_FRAMES = 8
_SHARE = "share"
_QUANTILES = {"p50": 0.5, "p99": 0.99}
_LEFT_OUT = {"p50": EXTRA + 3, "share": EXTRA + 2, "max": EXTRA + 1, "p99": EXTRA}  # where the width is short
_KEPT = 3  # columns that rank the groups, at any width


@dataclass(frozen=True)
class Wanted:
    """How the user wants tables.

    Attributes:
        top: how many groups a table shows.
        sort: the heading of a column that ranks the groups; empty: as the stream says.
        by: the columns that make a group; empty: as the stream says.
    """

    top: int = SHOWN_GROUPS
    sort: str = ""
    by: tuple[str, ...] = ()


class TableSink:
    """Adds up what the tables of some streams show.

    Args:
        by: the columns that make a group in the tables of every stream that has them; empty: as each stream says.
    """

    def __init__(self, streams: Sequence[DescribedStream], by: tuple[str, ...] = ()) -> None:
        self.name = "the tables"
        self._tables = Tables(streams, by)

    @property
    def views(self) -> Sequence[View]:
        """What was added up so far, a view a table."""
        return self._tables.views

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """The columns that its tables read."""
        return self._tables.columns(stream)

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Takes a batch."""
        self._tables.add(stream, batch)

    def flush(self) -> None:
        """Nothing: whoever shows the tables asks for them."""

    def close(self) -> list[str]:
        """Nothing to end."""
        return []


def headings(streams: Sequence[DescribedStream], by: tuple[str, ...] = ()) -> set[str]:
    """The headings by which the tables of these streams can be sorted."""
    grouped = [view for view in Tables(streams, by).views if isinstance(view, Aggregate)]
    return {heading for one in grouped for heading in (*one.table.by, *(figure.heading for figure in _figures(one)))}


def table_lines(
    views: Sequence[View], wanted: Wanted, width: int | None, height: int | None = None
) -> Iterator[tuple[Part | None, str]]:
    """The lines of every table that has something to show, each with its part of a table; None: a title or a remark.

    Args:
        width: of the terminal; None: there is nothing to fit into.
        height: the number of lines that there is room for; None: any number.
    """
    busy = [view for view in views if (view.shown() if isinstance(view, Aggregate) else view.rows)]
    room = wanted.top if height is None else max(3, min(wanted.top, height // max(1, len(busy)) - 6))
    for view in busy:
        yield None, ""
        yield from _remark(f"{view.stream.name}: {view.table.title or view.stream.meaning}", width)
        match view:
            case Aggregate():
                layout, remarks = _of_groups(view, wanted, width, room)
            case Slowest():
                layout, remarks = _of_slowest(view, width, room)
            case Latest():
                layout, remarks = _of_latest(view, width, room)
        yield from layout.lines
        if layout.left_out:
            remarks.append(f"no room for: {', '.join(layout.left_out)}; use a wider terminal, or a pipe")
        for remark in remarks:
            yield from _remark(remark, width)


def _remark(text: str, width: int | None) -> Iterator[tuple[None, str]]:
    for line in textwrap.wrap(text, width) if width else [text]:
        yield None, line


@dataclass(frozen=True)
class _Figure:
    """A number of a group; `sign`: ≈ if it is not exact, ≤ if the number itself may be less.

    The unit `_SHARE` is for numbers from 0 to 1.
    """

    heading: str
    value: Any
    unit: str
    sign: str = ""

    def __str__(self) -> str:
        if self.unit == _SHARE:
            return "-" if self.value is None else f"{self.value:.1%}"
        return self.value if isinstance(self.value, str) else f"{self.sign}{aligned(self.value, self.unit)}"

    @property
    def order(self) -> tuple[bool, Any]:
        """Sorts the largest first, those that are absent last."""
        number = isinstance(self.value, int | float)
        return not number, -self.value if number else str(self.value)


def _figures(aggregate: Aggregate, values: Sequence[Any] | None = None) -> list[_Figure]:
    """What is shown of a group beside its name."""
    cells = aggregate.table.cells
    headed = headings_of(name for cell in cells if (name := _named(cell)))
    units = {name: column.unit for name, column in aggregate.stream.by_name.items()}
    whole = aggregate.rank(values) if values else 0
    found = []
    for cell, value in zip(cells, values or [None] * len(cells), strict=True):
        match cell:
            case Share(column):
                share = (value or 0) / whole if whole else None
                found.append(_Figure(f"% {headed.get(column, column)}", share, _SHARE))
            case Quantiles(column):
                found += _quantiles(aggregate, column, value or Durations(), values)
            case Rate(amount, name=name):
                unit = "B/s" if units[amount] == "bytes" else "1/s"
                found.append(_Figure(name, value.per_second if value else None, unit))
            case Inclusive(column=column) | Sum(column):
                found.append(_Figure(headed[_named(cell)], value, units.get(column, "")))
            case Count() | Failed():
                found.append(_Figure(headed[_named(cell)], value, ""))
    return found


def _named(cell: Cell) -> str:
    """The name of a cell with a number; empty: it has none of its own."""
    match cell:
        case Sum(column):
            return column
        case Count() | Failed() | Inclusive():
            return type(cell).__name__.lower()
        case _:
            return ""


def _quantiles(aggregate: Aggregate, name: str, spent: Durations, values: Sequence[Any] | None) -> Iterator[_Figure]:
    cells = aggregate.table.cells
    times = {place: cell.column for place, cell in enumerate(cells) if isinstance(cell, Sum)}
    alone = sum(isinstance(cell, Quantiles) for cell in cells) == 1
    unnamed = alone and sum(column.endswith("_ns") for column in times.values()) <= 1
    of = "" if unnamed else f" {name.removesuffix('_ns')}"
    if values and alone and times and not spent.exact and spent.buckets.total() == 1:
        spent = Durations(spent.buckets, values[max(times)])  # the only one is the total
    about, most = ("", "") if spent.exact or not spent.buckets else ("≈", "≤")
    for label, share in _QUANTILES.items():
        yield _Figure(label + of, spent.quantile(share), "ns", about)
    yield _Figure(f"max{of}", spent.longest if spent.buckets else None, "ns", most)


def _of_groups(aggregate: Aggregate, wanted: Wanted, width: int | None, room: int) -> tuple[Layout, list[str]]:
    groups = _sorted(aggregate, wanted.sort)
    shown, total = groups[:room], aggregate.total()
    columns = [
        Column(name, [_shown(name, group[index]) for group, _ in shown], "total" if total and not index else None)
        for index, name in enumerate(aggregate.table.by)
    ]
    rows = [_figures(aggregate, values) for _, values in shown]
    headed = headings_of(name for cell in aggregate.table.cells if (name := _named(cell)))
    ranking = [headed[name] for name in aggregate.ranked_by]
    for place, (figures, last) in enumerate(zip(zip(*rows, strict=True), _figures(aggregate, total), strict=True), 1):
        left_out = 0 if last.heading in ranking[:_KEPT] else _LEFT_OUT.get(last.heading.partition(" ")[0], place)
        columns.append(Column(last.heading, list(map(str, figures)), str(last) if total else None, True, left_out))
    if total:
        whole = aggregate.rank(total) or 1
        shares = [f"{aggregate.rank(values) / whole:.1%}" for _, values in shown]
        columns.append(Column(f"share of {' + '.join(ranking)}", shares, None, True, _LEFT_OUT["share"]))
    remarks = []
    if hidden := len(groups) - len(shown):
        remarks.append(f"{hidden:,} more groups; --top {len(groups)} shows all")
    if aggregate.dropped:
        remarks.append(f"too many groups for a table: the {aggregate.dropped:,} smallest were dropped; see --json")
    return laid_out(columns, width), remarks


def _sorted(aggregate: Aggregate, heading: str) -> list[tuple[Group, list[Any]]]:
    groups, by = aggregate.shown(), aggregate.table.by
    if heading in by:
        return sorted(groups, key=lambda item: str(item[0][by.index(heading)]))
    if heading not in {figure.heading for figure in _figures(aggregate)}:
        return groups
    return sorted(
        groups, key=lambda item: next(one.order for one in _figures(aggregate, item[1]) if one.heading == heading)
    )


def _shown(name: str, key: object) -> str:
    if key is None:
        return "-"
    if name != "stack":
        return str(key)
    # A line has room for the innermost frames only, and none for the build ids of code without symbols.
    frames = [frame.partition(" [")[0] for frame in reversed(str(key).split(";"))]
    return " < ".join([*frames[:_SHOWN_FRAMES], *([".."] if len(frames) > _SHOWN_FRAMES else [])])


def _of_latest(latest: Latest, width: int | None, room: int) -> tuple[Layout, list[str]]:
    rows = latest.rows[-room:]
    hidden = latest.count - len(rows)
    said = [f"the latest {len(rows)} of {latest.count:,} rows; --lines shows each"] if hidden else []
    return laid_out(_columns(latest, rows), width), said


def _of_slowest(slowest: Slowest, width: int | None, room: int) -> tuple[Layout, list[str]]:
    rows = slowest.rows[:room]
    longer = [aligned(slowest.usual.longer_ns(row, slowest.table.duration), "ns") for row in rows]
    columns = [
        *_columns(slowest, rows),
        Column("over median", longer, number=True),
        Column("what took longer", [_reason(slowest, row) for row in rows]),
    ]
    return laid_out(columns, width), []


def _reason(slowest: Slowest, row: dict[str, Any]) -> str:
    """What slowed the row, then what took longer; `-` if neither is known."""
    headings = headings_of(slowest.table.parts)
    longer = slowest.usual.longer_parts(row).items()
    parts = ", ".join(f"{headings[name]} +{aligned(ns, 'ns').strip()}" for name, ns in longer)
    return ": ".join(filter(None, (", ".join(slowest.causes(row)), parts))) or "-"


def _columns(view: Latest | Slowest, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    names, described = view.table.columns, view.stream.by_name
    numeric = {name for name in names if any(isinstance(row[name], int | float) for row in rows)}
    headed = headings_of(names)
    return [
        Column(
            headed[name],
            [_cell(row, name, described[name]) for row in rows],
            number=name in numeric,
            left_out=place if name in numeric else 0,
        )
        for place, name in enumerate(names)
    ]


def _cell(row: Mapping[str, Any], name: str, column: StreamColumn) -> str:
    value = row[name]
    if value is None:
        return "-"
    if column.unit:
        return aligned(value, column.unit)
    if column.codes and isinstance(value, int):
        return column.codes.shown(value)
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return column.cut(text, value) if column.cut_if and row[column.cut_if] else text
