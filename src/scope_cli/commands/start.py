"""`scope start`: starts a task on a machine."""

import argparse
from typing import TYPE_CHECKING, Any, cast

from scope_cli.definition import add_options, add_target, given_options, given_target, positional_option

if TYPE_CHECKING:
    from scope_cli.api import Target, TaskWish


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "start",
        help="start a task on a machine",
        description="Starts a task and prints its id. If the machine is away, the task is pending and starts when "
        "the machine is back.",
    )
    parser.add_argument("node", metavar="NODE", help="hostname or machine id; `local` for the server's own machine")
    parser.add_argument("probe", metavar="PROBE", help="the probe; `scope probes` lists all")
    add_target(parser)
    parser.add_argument("--duration", type=float, metavar="S", help="stop after this many seconds")
    add_options(parser)
    parser.set_defaults(run=run, takes_words=positional_option)


def run(arguments: argparse.Namespace) -> None:
    """Starts the task; prints its id, and on standard error why it is still pending."""
    from scope_cli.client import Client
    from scope_cli.printable import print_line, print_remark
    from scope_cli.tasks import task_remarks

    body: TaskWish = {
        "probe": arguments.probe,
        "target": cast("Target", given_target(arguments)),
        "options": given_options(arguments),
    }
    if arguments.node != "local":
        body["node"] = arguments.node
    if arguments.duration is not None:
        body["duration"] = arguments.duration
    task = Client().start_task(body)  # answers when the task records, or with the reason why it does not yet
    print_line(task["task_id"])
    if task["state"] in ("pending", "starting"):
        why = "; ".join(task_remarks(task)) or "the machine has not started it yet"
        print_remark(f"scope: the task is pending: {why}; `scope tasks` shows it")
