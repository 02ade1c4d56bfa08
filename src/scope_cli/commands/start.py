"""`scope start`: has a machine record."""

import argparse
from typing import Any

from scope_cli.definition import add_options, add_target, given_options, given_target


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("start", help="start a task on a machine")
    parser.add_argument("node", metavar="NODE", help="hostname or machine id; `local` for this server's own")
    parser.add_argument("probe", metavar="PROBE", help="what to record; `scope probes` lists them")
    add_target(parser)
    parser.add_argument("--duration", type=float, metavar="S", help="stop after this many seconds")
    add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Starts the task; prints its id."""
    from scope_cli.client import Client

    body = {"probe": arguments.probe, "target": given_target(arguments), "options": given_options(arguments)}
    if arguments.node != "local":
        body["node"] = arguments.node
    if arguments.duration is not None:
        body["duration"] = arguments.duration
    print(Client().post("tasks", body=body)["task_id"])
