"""`scope tasks`: what is being recorded, with its books and its cost."""

import argparse
import json
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "tasks",
        help="list tasks with events, losses and cost",
        epilog="events = stored + under way + lost. Events under way wait on the machine or in the server.",
    )
    parser.add_argument("--all", action="store_true", help="also list ended tasks")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line a task and stream."""
    from rich.console import Console

    from scope_cli.client import Client
    from scope_cli.tasks import task_table

    tasks = Client().get("tasks", state=None if arguments.all else "active")["tasks"]
    if arguments.json:
        print(json.dumps(tasks, indent=2))
    else:
        Console().print(task_table(tasks))
