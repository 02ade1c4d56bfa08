"""`scope nodes`: the machines the server knows."""

import argparse
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("nodes", help="list the machines the server knows")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per machine."""
    from scope_cli.client import Client
    from scope_cli.nodes import node_table
    from scope_cli.printable import print_json
    from scope_cli.terminal import console

    nodes = Client().get("nodes")["nodes"]
    if arguments.json:
        print_json(nodes)
    else:
        console().print(node_table(nodes))
