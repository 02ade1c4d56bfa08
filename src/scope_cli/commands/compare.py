"""`scope compare`: what differs between two sets of recorded rows."""

import argparse
from typing import Any

from scope_cli import window


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "compare",
        help="tell which columns differ most between rows and others, such as slow ones and the rest",
        epilog="Without --against-..., the rows of --where are compared with the others of the same time. Columns are "
        "in the order of their difference, from 0 to 1, weighted by how sure it is that chance does not make it.",
    )
    parser.add_argument("stream", metavar="STREAM", help="such as syscall or llama_token; `scope probes` lists them")
    window.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per column, and a line per value of it."""
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line, print_remark
    from scope_cli.terminal import RowTable, console

    found = Client().get_difference(arguments.stream, **window.asked(arguments))
    if arguments.json:
        print_json(found)
        return
    for name, side in (("inside", found["inside"]), ("outside", found["outside"])):
        every = f"{side['rows']:,}" if side["complete"] else f"about {side['rows']:,}"
        print_line(f"{name}: {side['read']:,} of {every} rows were compared")
    if found["longer"]:
        _print_longer(found["longer"])
    table = RowTable("column", "differs", "sure", "value", "inside", "outside")
    for each in found["columns"]:
        begin = (each["column"], f"{each['difference']:.2f}", f"{each['sure']:.0%}")
        for line in _lines(each):
            table.add_row(*begin, *line)
            begin = ("", "", "")
    if found["columns"]:
        console().print(table)
    else:
        print_line("no column differs")
    if found["frames"]:
        frames = RowTable("frame", "sure", "inside", "outside")
        for one in found["frames"]:
            frames.add_row(one["frame"], f"{one['sure']:.0%}", f"{one['inside']:.1%}", f"{one['outside']:.1%}")
        console().print(frames)
        print_remark(f"scope: scope flamegraph {arguments.stream} -o FILE, with these options, draws how stacks differ")
    if found["samples"]:
        print_remark(
            f"scope: threads were sampled meanwhile: scope flamegraph {found['samples'][0]} --of {arguments.stream} "
            "-o FILE, with these options, draws where they were"
        )


def _print_longer(longer: Any) -> None:
    """What rows inside took longer for."""
    from scope_cli.printable import print_line
    from scope_cli.quantities import quantity

    def shown(ns: float) -> str:
        return quantity(round(ns), "ns")

    whole = longer["duration"]
    print_line(f"a row inside took {shown(whole['inside_ns'])} in the mean, one outside {shown(whole['outside_ns'])}")
    for cause in longer["causes"]:
        sides = f"{cause['inside']:.1%} of the rows inside, and {cause['outside']:.1%} of those outside"
        print_line(f"{cause['text']} slowed {sides}")
    for part in longer["parts"]:
        more = shown(part["inside_ns"] - part["outside_ns"])
        print_line(f"{part['column']} took {more} longer: {part['meaning']}")


def _lines(each: Any) -> list[tuple[str, str, str]]:
    """What is shown of a column: its values with their shares, or its quantiles."""
    from scope_cli.quantities import quantity

    if each["numbers"]:
        unit = each["unit"]

        def shown(side: str, name: str) -> str:
            value = each["numbers"][side][name]
            return "-" if value is None else quantity(round(value), unit) if unit else f"{value:,.6g}"

        return [(name, shown("inside", name), shown("outside", name)) for name in ("p50", "p90", "p99")]
    most = each["values"][:3]
    return [(str(one["value"] or "-"), f"{one['inside']:.1%}", f"{one['outside']:.1%}") for one in most]
