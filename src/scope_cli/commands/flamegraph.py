"""`scope flamegraph`: recorded stacks as a flame graph."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli import window

FORMATS = {".svg": "svg", ".txt": "folded", ".pb.gz": "pprof", ".json": "speedscope", ".arrow": "arrow"}


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "flamegraph",
        help="draw recorded stacks as a flame graph, for a browser or another tool",
        epilog="With --against-..., draws the difference: red is what weighs more than in the other rows, blue what "
        "weighs less.",
    )
    parser.add_argument("stream", metavar="STREAM", help="a stream with stacks, such as profile or why_summary")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the file to write")
    endings = ", ".join(f"{form}: {ending}" for ending, form in FORMATS.items())
    parser.add_argument(
        "--format", choices=tuple(FORMATS.values()), help=f"default: by the file's ending ({endings}), else svg"
    )
    parser.add_argument("--column", metavar="COLUMN", help="the column of stacks (default: the first)")
    parser.add_argument("--by", metavar="COLUMN", help="what is added up: count, or a column with a unit")
    parser.add_argument(
        "--of",
        metavar="OTHER",
        help="draw only samples that were taken while rows of this stream lasted, such as syscall or llama_token; "
        "--where and --task choose these rows",
    )
    window.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Writes the file; an old one stays if the server has no answer."""
    from scope_cli.client import Client
    from scope_cli.saved import save

    output: Path = arguments.output
    form = arguments.format or next((one for ending, one in FORMATS.items() if output.name.endswith(ending)), "svg")
    how = {"column": arguments.column, "by": arguments.by, "format": form, "of": arguments.of}
    query = {**window.asked(arguments), **how}
    client = Client()
    save(output, lambda file: client.get_flamegraph(file, arguments.stream, **query))
