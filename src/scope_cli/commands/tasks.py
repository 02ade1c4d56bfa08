"""`scope tasks`: tasks with their event counts and cost."""

import argparse
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
    """Prints a line per task and stream, and the storage used."""
    from scope_cli.client import Client
    from scope_cli.printable import print_json
    from scope_cli.storage import storage_line
    from scope_cli.tasks import task_lines, task_table
    from scope_cli.terminal import console, plain

    client = Client()
    tasks = client.get_tasks(state=None if arguments.all else "active")["tasks"]
    if arguments.json:
        print_json(tasks)
    else:
        output = console()
        output.print(task_table(tasks))
        for line in task_lines(tasks):
            output.print(line, soft_wrap=True)
        output.print(plain(storage_line(client.get_storage()), "dim"), soft_wrap=True)
