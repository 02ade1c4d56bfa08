"""Options that say which rows of a stream a command is about, and with which others they are compared."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

AGAINST = ("during", "against_since", "against_until", "against_during", "against_where")


def add_filter(parser: argparse.ArgumentParser, example: str) -> None:
    """Adds --where and --container."""
    parser.add_argument("--where", metavar="FILTER", help=f"only rows that meet this, such as '{example}'")
    parser.add_argument(
        "--container",
        metavar="NAME",
        help="only rows of processes in this container: short for --where \"container = 'NAME'\"",
    )


def filter_of(arguments: argparse.Namespace) -> str | None:
    """The filter that --where and --container are together; None: neither was given."""
    where: str | None = arguments.where
    if arguments.container is None:
        return where
    quoted = "'" + arguments.container.replace("'", "''") + "'"
    return f"({where}) and container = {quoted}" if where else f"container = {quoted}"


def add_window(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a window."""
    from scope_cli.times import NEGATIVE, moment

    parser._negative_number_matcher = NEGATIVE  # -5m is a value: as in argparse of Python 3.14
    add_filter(parser, "duration_ns > 1ms")
    parser.add_argument("--node", metavar="NODE", help="only rows of this machine: its hostname or id")
    parser.add_argument("--task", metavar="ID", help="only rows that this task recorded")
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=moment,
        help="only rows from this time on: -5m, or 2026-01-31T12:00:00Z (default: an hour before --until)",
    )
    parser.add_argument("--until", metavar="TIME", type=moment, help="only rows before this time")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a window, and of another one."""
    from scope_cli.times import moment

    add_window(parser)
    parser.add_argument(
        "--against-since", metavar="TIME", type=moment, help="compare with rows from this time on (default: --since)"
    )
    parser.add_argument(
        "--against-until", metavar="TIME", type=moment, help="compare with rows before this time (default: --until)"
    )
    parser.add_argument(
        "--during",
        metavar="ANNOTATION",
        help="only rows of an annotation's time, in place of --since and --until: its id, or a label, such as epoch=3",
    )
    parser.add_argument(
        "--against-during", metavar="ANNOTATION", help="compare with rows of another annotation's time: epoch=2"
    )
    parser.add_argument("--against-where", metavar="FILTER", help="compare with rows that meet this (default: --where)")


def asked(arguments: argparse.Namespace, others: Sequence[str] = AGAINST) -> dict[str, Any]:
    """The parameters of the request, with those of the other rows."""
    names = ("task", "since", "until", *others)
    query = {name: getattr(arguments, name) for name in names}
    return query | {"where": filter_of(arguments), "machine": arguments.node}


def print_remarks(found: Mapping[str, Any]) -> None:
    """Says what an answer about all rows of a window lacks: rows before it began to read, and lost ones."""
    from scope_cli.printable import print_remark

    if not found["complete"]:
        print_remark(
            f"scope: rows before {found['read_since']} were not read: they are too many; narrow it with --since"
        )
    print_losses(found["losses"])


def print_losses(losses: Sequence[Mapping[str, Any]]) -> None:
    """Says how many events of an answer's time were lost, and whether tasks did not record all of it."""
    from scope_cli.printable import print_remark

    if lost := sum(loss["count"] or 0 for loss in losses):
        print_remark(f"scope: {lost:,} events of this time were lost")
    if any(loss["count"] is None for loss in losses):
        print_remark("scope: a task did not record all of this time; scope tasks says why")
