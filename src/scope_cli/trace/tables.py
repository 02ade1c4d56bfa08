"""A trace as tables: one sink that adds up, and the lines that show what it has added up."""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from scope_catalogue.stream import Column as StreamColumn
from scope_catalogue.stream import DescribedStream
from scope_cli.quantities import aligned
from scope_cli.text_table import EXTRA, Column, Layout, Part, laid_out
from scope_cli.trace.headings import headings_of
from scope_views.groups import Group
from scope_views.tables.aggregate import Aggregate, Sums
from scope_views.tables.durations import Durations
from scope_views.tables.inclusive import INCLUSIVE
from scope_views.tables.slowest import Slowest
from scope_views.tables.tables import Tables

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
    def aggregates(self) -> Sequence[Aggregate]:
        """What was added up so far, a table each."""
        return self._tables.aggregates

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
    grouped = [aggregate for aggregate in TableSink(streams, by).aggregates if aggregate.live.by]
    return {heading for one in grouped for heading in (*one.live.by, *(figure.heading for figure in _figures(one)))}


def table_lines(
    aggregates: Sequence[Aggregate], wanted: Wanted, width: int | None, height: int | None = None
) -> Iterator[tuple[Part | None, str]]:
    """The lines of every table that has something to show, each with its part of a table; None: a title or a remark.

    Args:
        width: of the terminal; None: there is nothing to fit into.
        height: the number of lines that there is room for; None: any number.
    """
    busy = [aggregate for aggregate in aggregates if aggregate.latest or aggregate.shown()]
    room = wanted.top if height is None else max(3, min(wanted.top, height // max(1, len(busy)) - 6))
    for aggregate in busy:
        yield None, ""
        yield from _remark(f"{aggregate.stream.name}: {aggregate.live.title or aggregate.stream.meaning}", width)
        if aggregate.live.by:
            layout, remarks = _of_groups(aggregate, wanted, width, room)
        elif isinstance(aggregate, Slowest):
            layout, remarks = _of_slowest(aggregate, width, room)
        else:
            layout, remarks = _of_latest(aggregate, width, room)
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


def _figures(aggregate: Aggregate, sums: Sums | None = None) -> list[_Figure]:
    """What is shown of a group beside its name."""
    live, units = aggregate.live, {name: column.unit for name, column in aggregate.stream.by_name.items()}
    units[INCLUSIVE] = units.get(aggregate.ranked_by[-1] if aggregate.ranked_by else "", "")
    numbers = sums.numbers if sums else [None] * len(aggregate.numbers)
    headed = headings_of(aggregate.numbers)
    found = [
        _Figure(headed[name], number, units.get(name, ""))
        for name, number in zip(aggregate.numbers, numbers, strict=True)
    ]
    whole = aggregate.rank(sums) if sums else 0
    for name in live.parts:
        part = (numbers[aggregate.numbers.index(name)] or 0) / whole if whole else None
        found.append(_Figure(f"% {headed[name]}", part, _SHARE))
    for index, name in enumerate(live.quantiles):
        spent = sums.durations[index] if sums else Durations()
        of = "" if _is_alone(aggregate, name) else f" {name.removesuffix('_ns')}"
        if not spent.exact and spent.buckets.total() == 1 and sums:
            spent = Durations(spent.buckets, sums.numbers[-1])  # the only one is the total
        about, most = ("", "") if spent.exact or not spent.buckets else ("≈", "≤")
        found += [_Figure(label + of, spent.quantile(share), "ns", about) for label, share in _QUANTILES.items()]
        found.append(_Figure(f"max{of}", spent.longest if spent.buckets else None, "ns", most))
    if live.rate:
        found.append(_Figure(live.rate, sums.rate if sums else None, units[live.rate]))
    return found


def _is_alone(aggregate: Aggregate, name: str) -> bool:
    """Whether the table shows no durations of anything else."""
    totals = {other for other in aggregate.live.totals if other.endswith("_ns")}
    return aggregate.live.quantiles == (name,) and len(totals) <= 1


def _of_groups(aggregate: Aggregate, wanted: Wanted, width: int | None, room: int) -> tuple[Layout, list[str]]:
    groups = _sorted(aggregate, wanted.sort)
    shown, total = groups[:room], aggregate.total()
    columns = [
        Column(name, [_shown(name, group[index]) for group, _ in shown], "total" if total and not index else None)
        for index, name in enumerate(aggregate.live.by)
    ]
    rows = [_figures(aggregate, sums) for _, sums in shown]
    headed = headings_of(aggregate.numbers)
    ranking = [headed[name] for name in aggregate.ranked_by]
    for place, (figures, last) in enumerate(zip(zip(*rows, strict=True), _figures(aggregate, total), strict=True), 1):
        left_out = 0 if last.heading in ranking[:_KEPT] else _LEFT_OUT.get(last.heading.partition(" ")[0], place)
        columns.append(Column(last.heading, list(map(str, figures)), str(last) if total else None, True, left_out))
    if total:
        whole = aggregate.rank(total) or 1
        shares = [f"{aggregate.rank(sums) / whole:.1%}" for _, sums in shown]
        columns.append(Column(f"share of {' + '.join(ranking)}", shares, None, True, _LEFT_OUT["share"]))
    remarks = []
    if hidden := len(groups) - len(shown):
        remarks.append(f"{hidden:,} more groups; --top {len(groups)} shows all")
    if aggregate.dropped:
        remarks.append(f"too many groups for a table: the {aggregate.dropped:,} smallest were dropped; see --json")
    return laid_out(columns, width), remarks


def _sorted(aggregate: Aggregate, heading: str) -> list[tuple[Group, Sums]]:
    groups, by = aggregate.shown(), aggregate.live.by
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


def _of_latest(aggregate: Aggregate, width: int | None, room: int) -> tuple[Layout, list[str]]:
    rows = list(aggregate.latest)[-room:]
    hidden = aggregate.rows - len(rows)
    said = [f"the latest {len(rows)} of {aggregate.rows:,} rows; --lines shows each"] if hidden else []
    return laid_out(_columns(aggregate, rows), width), said


def _of_slowest(aggregate: Slowest, width: int | None, room: int) -> tuple[Layout, list[str]]:
    rows, slowest = aggregate.latest[:room], aggregate.live.slowest
    longer = [aligned(aggregate.longer_ns(row, slowest), "ns") for row in rows]
    columns = [
        *_columns(aggregate, rows),
        Column("over median", longer, number=True),
        Column("what took longer", [_reason(aggregate, row) for row in rows]),
    ]
    return laid_out(columns, width), []


def _reason(aggregate: Slowest, row: dict[str, Any]) -> str:
    """What slowed the row, then what took longer; `-` if neither is known."""
    headings = headings_of(aggregate.live.parts)
    longer = aggregate.longer_parts(row).items()
    parts = ", ".join(f"{headings[name]} +{aligned(ns, 'ns').strip()}" for name, ns in longer)
    return ": ".join(filter(None, (", ".join(aggregate.causes(row)), parts))) or "-"


def _columns(aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    live, described = aggregate.live, aggregate.stream.by_name
    numeric = {name for name in live.latest if any(isinstance(row[name], int | float) for row in rows)}
    headed = headings_of(live.latest)
    return [
        Column(
            headed[name],
            [_cell(row, name, described[name]) for row in rows],
            number=name in numeric,
            left_out=place if name in numeric else 0,
        )
        for place, name in enumerate(live.latest)
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
