"""Rows as the server tells them, as a table: whole columns, as many as the terminal has room for."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from scope_catalogue.catalogue import streams
from scope_catalogue.nearest import unknown
from scope_cli.errors import UsageError
from scope_cli.printable import print_remark
from scope_cli.quantities import quantity
from scope_cli.terminal import RowTable, console, plain
from scope_views.printable import printable

FIRST = ("time", "comm", "pid")
LAST = ("tid", "uid", "cpu")  # of every stream: behind what is its own
IN_JSON_ONLY = ("ktime_ns", "start_ns", "cgroup_id")
WIDEST = 60  # of a column that others follow
PADDING = 2
_TIME = len("2026-01-31T12:00:00.000000")

Row = Mapping[str, Any]


class EventTable:
    """Prints rows of a stream as a table, page by page. The heading is printed once; columns never become narrower.

    Args:
        chosen: the columns to print; empty: as many as fit.
        first: the columns that are kept longest if there is not enough room.
    """

    def __init__(self, stream: str, chosen: Sequence[str] = (), first: Sequence[str] = ()) -> None:
        known = streams().get(stream)
        self._stream = stream
        self._described = known.by_name if known else {}
        self._chosen, self._first = list(chosen), first
        self._widths: dict[str, int] = {}  # of the columns that are shown, from the first rows on

    def print(self, rows: Sequence[Row]) -> None:
        """Prints rows. Columns that did not fit are named on standard error.

        Raises:
            UsageError: the stream does not have a chosen column.
        """
        if not rows:
            return
        heading = not self._widths
        names = list(self._widths) or self._chosen or self._names(rows)
        if missing := [name for name in names if name not in rows[0]]:
            raise UsageError(f"stream '{self._stream}': {unknown('column', missing[0], rows[0])}")
        columns = {name: [printable(self._cell(row, name)) for row in rows] for name in names}
        output = console()
        shown = names if self._chosen or not heading else _fitting(columns, output.width, self._first)
        table = RowTable(padding=(0, PADDING, 0, 0), pad_edge=False, show_header=heading)
        for name in shown:
            width = max(map(cell_len, (name, *columns[name])))
            self._widths[name] = max(self._widths.get(name, 0), min(WIDEST, width))
            types = {type(row[name]) for row in rows} - {type(None)}
            numbers = bool(types) and types <= {int, float}
            table.add_column(name, justify="right" if numbers else "left", min_width=self._widths[name])
        for cells in zip(*(columns[name] for name in shown), strict=True):
            table.add_row(*(plain(cell, overflow="fold") for cell in cells))
        output.print(table)
        if hidden := [name for name in names if name not in shown]:
            print_remark(f"not shown: {', '.join(hidden)}; choose with --columns, or see all with --json")

    def _names(self, rows: Sequence[Row]) -> list[str]:
        own = (name for name in self._described if name not in (*FIRST, *LAST, *IN_JSON_ONLY))
        of_many = len({row.get("hostname") for row in rows}) > 1
        first = ("time", "hostname", *FIRST[1:]) if of_many else FIRST
        names = [name for name in (*first, *own, *LAST) if name in rows[0]]
        lists = {name for name in names if any(isinstance(row[name], list) for row in rows)}
        # A histogram does not fit into a cell.
        return [name for name in names if name not in lists or self._described[name].unit == ""]

    def _cell(self, row: Row, name: str) -> str:
        value = row[name]
        if name == "time":
            return str(value)[:_TIME]
        column = self._described.get(name)
        if column and column.hex and isinstance(value, int):
            return hex(value % (1 << 64))
        if column and column.codes and isinstance(value, int):
            return column.codes.shown(value)
        unit = column.unit if column else ""
        text = quantity(value, unit) if unit or value is None or isinstance(value, list) else str(value)
        is_cut = column and column.cut_if and value is not None and row.get(column.cut_if)
        return column.cut(text, value) if column and is_cut else text


def _fitting(columns: Mapping[str, Sequence[str]], width: int, first: Sequence[str]) -> list[str]:
    shown: set[str] = set()
    for name in dict.fromkeys((*(name for name in first if name in columns), *columns)):
        needed = min(WIDEST, max(map(cell_len, (name, *columns[name])))) + PADDING
        if shown and needed > width:
            continue
        shown.add(name)
        width -= needed
    return [name for name in columns if name in shown]
