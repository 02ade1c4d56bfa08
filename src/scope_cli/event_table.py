"""Rows as the server tells them, as a table: whole columns, as many as the terminal has room for."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scope_bpf.catalogue.stream import Column
from scope_bpf.probes import probes
from scope_cli.errors import UsageError
from scope_cli.quantities import quantity

FIRST = ("time", "comm", "pid")
LAST = ("tid", "uid", "cpu")  # of every stream: behind what is its own
IN_JSON_ONLY = ("ktime_ns", "start_ns", "cgroup_id")
WIDEST = 60  # of a column that others follow
PADDING = 2
WIDTH_OF_A_FILE = 10_000  # no terminal, nothing to fit into

Row = Mapping[str, Any]


def print_rows(stream: str, rows: Sequence[Row], chosen: Sequence[str] = (), first: Sequence[str] = ()) -> None:
    """Prints the columns chosen, or those that fit; which did not is said on standard error.

    Args:
        first: columns that are left out last, where there is no room for all.

    Raises:
        UsageError: the stream has no such column.
    """
    streams = {known.name: known for probe in probes().values() for known in probe.public_streams}
    described = streams[stream].described() if stream in streams else {}
    if not rows:
        return
    unknown = [name for name in chosen if name not in rows[0]]
    if unknown:
        raise UsageError(f"stream '{stream}' has no column '{unknown[0]}'; it has: {', '.join(rows[0])}")
    of_many = len({row.get("hostname") for row in rows}) > 1
    names = list(chosen) or _names(rows[0], described, of_many)
    columns = {name: [_cell(name, row[name], described) for row in rows] for name in names}
    on_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console() if on_terminal else Console(width=WIDTH_OF_A_FILE)
    shown = names if chosen else _fitting(columns, console.width, first)
    table = Table(*shown, box=None, padding=(0, PADDING, 0, 0), pad_edge=False)
    for cells in zip(*(columns[name] for name in shown), strict=True):
        table.add_row(*(Text(cell, overflow="fold") for cell in cells))
    console.print(table)
    hidden = [name for name in names if name not in shown]
    if hidden:
        print(f"not shown: {', '.join(hidden)}; choose with --columns, or see all with --json", file=sys.stderr)


def _names(row: Row, described: Mapping[str, Column], of_many: bool) -> list[str]:
    own = (name for name in described if name not in (*FIRST, *LAST, *IN_JSON_ONLY))
    first = ("time", "hostname", *FIRST[1:]) if of_many else FIRST
    names = [name for name in (*first, *own, *LAST) if name in row]
    lists = {name for name in names if isinstance(row[name], list)}
    return [name for name in names if name not in lists or described[name].unit == ""]  # a histogram is no cell


def _fitting(columns: Mapping[str, Sequence[str]], width: int, first: Sequence[str]) -> list[str]:
    shown: set[str] = set()
    for name in dict.fromkeys((*(name for name in first if name in columns), *columns)):
        needed = min(WIDEST, max(map(cell_len, (name, *columns[name])))) + PADDING
        if shown and needed > width:
            continue
        shown.add(name)
        width -= needed
    return [name for name in columns if name in shown]


def _cell(name: str, value: Any, described: Mapping[str, Column]) -> str:
    if name == "time":
        return str(value)[: len("2026-01-31T12:00:00.000000")]
    unit = described[name].unit if name in described else ""
    return quantity(value, unit) if unit or value is None or isinstance(value, list) else str(value)
