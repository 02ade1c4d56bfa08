"""`scope states`: current states of a stream, such as memory or GPUs."""

import argparse
from typing import TYPE_CHECKING, Any

from scope_cli import states

if TYPE_CHECKING:
    from scope_catalogue.shown import Latest


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "states",
        help="show current states, such as memory by process, or GPUs; the largest first",
        epilog="The time of a state is when a task last read it.",
    )
    parser.add_argument("stream", metavar="STREAM", help="such as cuda_memory, gpu or gpu_process")
    parser.add_argument("--columns", metavar="A,B,...", help="print these columns (default: as many as fit)")
    states.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per group of states."""
    from scope_catalogue.catalogue import streams
    from scope_cli.event_table import EventTable
    from scope_cli.printable import print_json, print_line

    groups = states.ask(arguments.stream, arguments)
    if arguments.json:
        print_json(groups)
    elif groups:
        chosen = arguments.columns.split(",") if arguments.columns else []
        known = streams().get(arguments.stream)
        EventTable(arguments.stream, chosen, _figures(known.latest) if known and known.latest else ()).print(groups)
    else:
        print_line(f"no current states of stream '{arguments.stream}' recorded")


def _figures(latest: "Latest") -> tuple[str, ...]:
    # In a narrow terminal, names and numbers come before long texts.
    return ("comm", "pid", *latest.by[:2], *latest.totals, *latest.means)
