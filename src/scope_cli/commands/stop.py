"""`scope stop`: ends a task, or tasks that were started together."""

import argparse
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("stop", help="stop a task, or a group; recorded data is kept")
    parser.add_argument("task", metavar="TASK", help="its id, or that of a group of tasks, or its first characters")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Stops the task, or all tasks of the group; prints their ids."""
    from scope_cli.client import Client
    from scope_cli.errors import UsageError
    from scope_cli.printable import print_line

    client = Client()
    active = client.get_tasks(state="active")["tasks"]
    tasks = {task["task_id"] for task in active if task["task_id"].startswith(arguments.task)}
    groups = {task["group_id"] for task in active if (task["group_id"] or "").startswith(arguments.task)}
    if len(tasks) + len(groups) != 1:
        found = "the ids of several tasks begin" if tasks or groups else "no active task's id begins"
        raise UsageError(f"{found} with '{arguments.task}'; `scope tasks` lists them")
    for group in groups:
        for task in client.stop_group(group or "")["tasks"]:
            print_line(task["task_id"])
    for task_id in tasks:
        print_line(client.stop_task(task_id)["task_id"])
