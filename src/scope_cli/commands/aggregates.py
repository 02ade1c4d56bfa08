"""`scope aggregates`: counts, sums and percentiles of groups of recorded rows."""

import argparse
import re
from typing import Any

from scope_cli import window

_OF_COLUMN = re.compile(r"\w[\w.]*\((\w+)\)")  # a cell about the values of one column, such as p99.9(duration_ns)


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "aggregates",
        help="print counts, sums or percentiles of groups of recorded rows, such as the slowest calls by name",
        epilog="Cells: count, failed, rate, rate(AMOUNT,DURATION), and sum, mean, min, max or a percentile of a "
        "column, such as p99(duration_ns). The first one ranks the groups, or --order.",
    )
    parser.add_argument("stream", metavar="STREAM", help="such as syscall or llama_token; `scope probes` lists them")
    parser.add_argument("--by", metavar="A,B,...", help="columns to group by; `machine` is one")
    parser.add_argument("--cells", metavar="CELL,...", help="what to compute (default: count)")
    parser.add_argument(
        "--every", choices=("1s", "5s", "15s", "1m", "5m", "15m", "1h", "6h", "1d"), help="a line for each step"
    )
    parser.add_argument("--order", metavar="CELL", help="the cell that ranks the groups")
    parser.add_argument("--top", type=int, metavar="N", help="how many groups (default: 10)")
    window.add_window(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per group, or per step of each."""
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line
    from scope_cli.terminal import RowTable, console

    asked = {name: getattr(arguments, name) for name in ("by", "cells", "every", "order", "top")}
    found = Client().get_aggregates(arguments.stream, **window.asked(arguments, ()), **asked)
    if arguments.json:
        print_json(found)
        return
    if not found["groups"]:
        print_line("there are no rows in this time")
    else:
        first = found["groups"][0]
        table = RowTable(*(("time",) if arguments.every else ()), *first["key"], padding=(0, 2, 0, 0))
        for cell in first["values"]:
            table.add_column(cell, justify="right")
        units = _units(arguments.stream, list(first["values"]))
        for group in found["groups"]:
            key = [str(_known(value)) for value in group["key"].values()]
            lines = (
                [(point["time"], point["values"]) for point in group["points"]]
                if arguments.every
                else [("", group["values"])]
            )
            for time, values in lines:
                cells = [_shown(value, units[cell]) for cell, value in values.items()]
                table.add_row(*((time,) if arguments.every else ()), *key, *cells)
        console().print(table)
    window.print_remarks(found)


def _units(stream: str, cells: list[str]) -> dict[str, str]:
    """The units of cells, as far as this version's catalogue knows the stream."""
    from scope_catalogue.catalogue import streams

    known = streams().get(stream)
    columns = known.types if known else {}
    units = {"rate": "1/s"}
    for cell in cells:
        of = _OF_COLUMN.fullmatch(cell)
        if of and of[1] in columns:
            units[cell] = columns[of[1]].unit
    return {cell: units.get(cell, "") for cell in cells}


def _known(value: object) -> object:
    return "-" if value is None else value


def _shown(value: float | None, unit: str) -> str:
    from scope_cli.quantities import aligned

    if isinstance(value, float) and not unit:
        return f"{value:,.6g}"
    return aligned(value, unit)
