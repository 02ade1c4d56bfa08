"""`scope stop`: ends a task."""

import argparse
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("stop", help="stop a task; its recorded data is kept")
    parser.add_argument("task", metavar="TASK", help="its id or its first characters")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Stops the task; prints its id."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError
    from scope_cli.printable import print_line

    client = Client()
    active = [task["task_id"] for task in client.get_tasks(state="active")["tasks"]]
    matching = [task for task in active if task.startswith(arguments.task)]
    if len(matching) != 1:
        found = "the ids of several tasks begin" if matching else "no active task's id begins"
        raise UsageError(f"{found} with '{arguments.task}'; `scope tasks` lists them")
    print_line(client.stop_task(matching[0])["task_id"])
