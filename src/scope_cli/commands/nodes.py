"""`scope nodes`: the machines the server knows."""

import argparse
import json
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("nodes", help="list the machines the server knows")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line a machine."""
    from rich.console import Console
    from rich.table import Table

    from scope_cli.client import Client

    nodes = Client().get("nodes")["nodes"]
    if arguments.json:
        print(json.dumps(nodes, indent=2))
        return
    table = Table("hostname", "machine", "kernel", "cpus", "connected", "last seen", box=None)
    for node in nodes:
        connected = "yes" if node["connected"] else "no"
        table.add_row(
            node["hostname"], node["machine_id"][:12], node["kernel"], str(node["cpus"]), connected, node["last_seen"]
        )
    Console().print(table)
