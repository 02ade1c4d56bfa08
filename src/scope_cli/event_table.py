"""Recorded rows as a table: whole columns, as many as the terminal has room for."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

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


def print_rows(stream: str, rows: Sequence[Row], chosen: Sequence[str] = ()) -> None:
    """Prints the columns chosen, or those that fit; which did not is said on standard error.

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
    names = list(chosen) or _names(rows[0], described)
    columns = {name: [_cell(name, row[name], described) for row in rows] for name in names}
    on_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console() if on_terminal else Console(width=WIDTH_OF_A_FILE)
    shown = names if chosen else _fitting(columns, console.width)
    table = Table(*shown, box=None, padding=(0, PADDING, 0, 0), pad_edge=False)
    for cells in zip(*(columns[name] for name in shown), strict=True):
        table.add_row(*cells)
    console.print(table)
    hidden = [name for name in names if name not in shown]
    if hidden:
        print(f"not shown: {', '.join(hidden)}; choose with --columns, or see all with --json", file=sys.stderr)


def _names(row: Row, described: Mapping[str, Column]) -> list[str]:
    own = (name for name in described if name not in (*FIRST, *LAST, *IN_JSON_ONLY))
    names = [name for name in (*FIRST, *own, *LAST) if name in row]
    lists = {name for name in names if isinstance(row[name], list)}
    return [name for name in names if name not in lists or described[name].unit == ""]  # a histogram is no cell


def _fitting(columns: Mapping[str, Sequence[str]], width: int) -> list[str]:
    shown: list[str] = []
    for name, cells in columns.items():
        needed = min(WIDEST, max(map(cell_len, (name, *cells)))) + PADDING
        if shown and needed > width:
            continue
        shown.append(name)
        width -= needed
    return shown


def _cell(name: str, value: Any, described: Mapping[str, Column]) -> str:
    if name == "time":
        return str(value)[: len("2026-01-31T12:00:00.000000")]
    unit = described[name].unit if name in described else ""
    return quantity(value, unit) if unit or value is None or isinstance(value, list) else str(value)
