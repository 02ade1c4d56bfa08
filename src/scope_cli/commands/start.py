"""`scope start`: starts a task on a machine."""

import argparse
from typing import TYPE_CHECKING, Any, cast

from scope_cli.definition import (
    add_filter,
    add_options,
    add_target,
    given_options,
    given_part,
    given_target,
    positional_option,
)
from scope_cli.errors import UsageError
from scope_cli.labels import label

if TYPE_CHECKING:
    from scope_cli.api import GroupWish, TaskWish


_TEMPLATE = "template:"


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "start",
        help="start a task on a machine, or several on many",
        description="Starts a task and prints its id. If the machine is away, the task is pending and starts when "
        "the machine is back.",
    )
    parser.add_argument(
        "node",
        metavar="NODE",
        help="hostname or machine id; `local` for the server's own machine; NAME=VALUE,... for all with these labels",
    )
    parser.add_argument(
        "probe",
        metavar="PROBE",
        help="the probe, or several with commas; `scope probes` lists all; template:NAME for those of a template",
    )
    add_target(parser)
    parser.add_argument("--duration", type=float, metavar="S", help="stop after this many seconds")
    add_options(parser)
    add_filter(parser)
    parser.set_defaults(run=run, takes_words=positional_option)


def run(arguments: argparse.Namespace) -> None:
    """Starts tasks; prints a line with the id of each, or of their group, and on standard error why some do not run."""
    if "=" in arguments.node or "," in arguments.probe or arguments.probe.startswith(_TEMPLATE):
        _start_group(arguments)
    else:
        _start_task(arguments)


def _start_task(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.printable import print_line, print_remark
    from scope_cli.tasks import task_remarks

    node = {} if arguments.node == "local" else {"node": arguments.node}
    body = {**given_part(arguments, arguments.probe), **_watched(arguments), **node}
    task = Client().start_task(
        cast("TaskWish", body)
    )  # answers when the task records, or with the reason why it does not yet
    print_line(task["task_id"])
    if task["state"] in ("pending", "starting"):
        why = "; ".join(task_remarks(task)) or "the machine has not started it yet"
        print_remark(f"scope: the task is pending: {why}; `scope tasks` shows it")


def _start_group(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.errors import CommandError
    from scope_cli.printable import print_line, print_remark
    from scope_cli.tasks import task_remarks

    group = Client().start_group(_group_wish(arguments))
    print_line(group["group_id"])
    for task in group["tasks"]:
        why = "".join(f": {said}" for said in task_remarks(task)[:1])
        print_remark(f"scope: {task['hostname']}: {task['probe']}: {task['state']}{why}")
    for refused in group["refused"]:
        print_remark(f"scope: {refused['hostname']}: {refused['probe']}: refused: {refused['reason']}")
    if not group["tasks"]:
        raise CommandError("no task was started")


def _group_wish(arguments: argparse.Namespace) -> "GroupWish":
    if "=" in arguments.node:
        where: dict[str, Any] = {"selector": dict(_label(text) for text in arguments.node.split(","))}
    else:
        where = {} if arguments.node == "local" else {"nodes": [arguments.node]}
    if not arguments.probe.startswith(_TEMPLATE):
        what: dict[str, Any] = {"parts": [given_part(arguments, probe) for probe in arguments.probe.split(",")]}
    elif given_options(arguments) or arguments.where is not None:
        raise UsageError("a template has its own options and filters; keep another template: POST /api/v1/templates")
    else:
        what = {"template": arguments.probe.removeprefix(_TEMPLATE)}
    return cast("GroupWish", {**what, **where, **_watched(arguments)})


def _label(text: str) -> tuple[str, str]:
    try:
        return label(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from None


def _watched(arguments: argparse.Namespace) -> dict[str, Any]:
    duration = {} if arguments.duration is None else {"duration": arguments.duration}
    return {"target": given_target(arguments), **duration}
