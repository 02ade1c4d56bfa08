"""`scope heatmap`: how many values of each size a column has, over time."""

import argparse
from collections.abc import Sequence
from typing import Any

from scope_cli import window

_SHADES = " ░▒▓█"  # of no value, and of ever more
_LABEL = 12  # cells of the terminal that sizes take, at most


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "heatmap",
        help="draw how many values of each size a column has, over time, such as durations of calls",
        epilog="A line is a size, up to the next power of two; the darker, the more values, on a logarithmic scale.",
    )
    parser.add_argument("stream", metavar="STREAM", help="such as syscall or llama_token; `scope probes` lists them")
    parser.add_argument("--column", metavar="COLUMN", help="default: the one that the stream measures")
    window.add_window(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Draws the heatmap as wide as the terminal, the largest values on top."""
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line
    from scope_cli.terminal import console

    steps = max(1, min(400, console().width - _LABEL - 1))
    asked = window.asked(arguments, ())
    found = Client().get_heatmap(arguments.stream, **asked, column=arguments.column, columns=steps)
    if arguments.json:
        print_json(found)
        return
    values = sum(map(sum, found["counts"]))
    print_line(f"{found['column']}: {values:,} values, a step is {found['step_s']:,g} s")
    if values:
        for line in drawn(found["edges"], found["counts"], found["unit"]):
            print_line(line)
        print_line(f"{'':{_LABEL}} {found['since']} to {found['until']}")
    window.print_remarks(found)


def drawn(edges: Sequence[int], counts: Sequence[Sequence[int]], unit: str) -> list[str]:
    """A line for each size between the least and the largest that has values.

    Args:
        edges: the least value of each size.
        counts: of each step, of each size.
    """
    from scope_cli.quantities import quantity

    there = [size for size in range(len(edges)) if any(step[size] for step in counts)]
    most = max(max(step) for step in counts)
    return [
        f"{quantity(edges[size], unit):>{_LABEL}} {''.join(_shade(step[size], most) for step in counts)}".rstrip()
        for size in range(there[-1], there[0] - 1, -1)
    ]


def _shade(count: int, most: int) -> str:
    """The shade of a count: the logarithm tells them apart, since most heatmaps have few large counts."""
    from math import log

    darkest = len(_SHADES) - 1
    return _SHADES[1 + min(darkest - 1, int(darkest * log(count) / log(most + 1)))] if count else _SHADES[0]
