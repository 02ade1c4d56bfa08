"""`scope nodes`: the machines the server knows, and their labels."""

import argparse
from typing import Any

from scope_cli.labels import change


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("nodes", help="list the machines the server knows; label them")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)
    topics = parser.add_subparsers(metavar="TOPIC")
    label = topics.add_parser("label", help="set or delete labels of a machine")
    label.add_argument("node", metavar="NODE", help="the machine's id or host name")
    label.add_argument(
        "changes", type=change, nargs="+", metavar="LABEL", help="NAME=VALUE sets a label, NAME- deletes one"
    )
    label.set_defaults(run=run_label)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per machine."""
    from scope_cli.client import Client
    from scope_cli.nodes import node_table
    from scope_cli.printable import print_json
    from scope_cli.terminal import console

    nodes = Client().get_nodes()["nodes"]
    if arguments.json:
        print_json(nodes)
    else:
        console().print(node_table(nodes))


def run_label(arguments: argparse.Namespace) -> None:
    """Changes labels, and prints all labels of the machine."""
    from scope_cli.client import Client
    from scope_cli.labels import shown
    from scope_cli.printable import print_line

    print_line(shown(Client().label_node(arguments.node, dict(arguments.changes))["labels"]))
