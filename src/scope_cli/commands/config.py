"""`scope config`: checks and shows the daemons' configuration, and writes documented files."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.configuration.daemons import DAEMONS, Daemon
from scope_cli.errors import CommandError
from scope_cli.printable import print_line, print_remark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scope_cli.configuration.resolve import Resolved


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("config", help="check, show or document the configuration of agent and server")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for name, run, brief, description in (
        (
            "check",
            _check,
            "say what is wrong with it",
            "Says what is wrong with a daemon's configuration file and environment variables, a line for each problem.",
        ),
        (
            "show",
            _show,
            "print the value of each setting, and where it came from",
            "Prints which value of each setting of a daemon holds, and where it came from. Passwords are left out.",
        ),
    ):
        action = actions.add_parser(
            name,
            help=brief,
            description=f"{description} Without DAEMON: of every daemon that has a file in /etc/scope.",
        )
        action.add_argument("daemon", nargs="?", choices=list(DAEMONS), metavar="DAEMON", help="agentd or server")
        action.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: /etc/scope/DAEMON.toml")
        action.set_defaults(run=run)
    sample = actions.add_parser("sample", help="print a configuration file with every setting explained")
    sample.add_argument("daemon", choices=list(DAEMONS), metavar="DAEMON", help="agentd or server")
    sample.set_defaults(run=_sample)


def _check(arguments: argparse.Namespace) -> None:
    problems = []
    for daemon, found in _configured(arguments):
        problems += found.problems
        if not found.problems:
            print_line(f"{_told(daemon, arguments.file)}: no problem")
        for note in found.notes:
            print_line(f"note: {note}")
    for problem in problems[:-1]:
        print_remark(f"scope: {problem}")
    if problems:
        raise CommandError(problems[-1])


def _show(arguments: argparse.Namespace) -> None:
    for daemon, found in _configured(arguments):
        print_line(f"{_told(daemon, arguments.file)}:")
        for line in _lines(daemon, found):
            print_line(f"  {line}")
        if found.problems:
            print_remark(f"scope: the configuration has problems; `scope config check {daemon.name}` says which")


def _configured(arguments: argparse.Namespace) -> "Iterator[tuple[Daemon[Any], Resolved]]":
    """The daemons that are meant, with their settings."""
    from scope_cli.configuration.resolve import resolve

    if arguments.daemon:
        daemons = [DAEMONS[arguments.daemon]]
    else:
        daemons = [daemon for daemon in DAEMONS.values() if daemon.file.exists()]
        if not daemons:
            raise CommandError("there is no configuration in /etc/scope; name agentd or server, and maybe a file")
    return ((daemon, resolve(daemon, arguments.file, os.environ)) for daemon in daemons)


def _told(daemon: Daemon[Any], file: Path | None) -> str:
    missing = "" if file or daemon.file.exists() else f" (there is no {daemon.file})"
    return f"{daemon.meaning}{missing}"


def _lines(daemon: Daemon[Any], found: "Resolved") -> list[str]:
    from scope_cli.configuration.keys import keys

    rows = []
    for name, key in keys(daemon).items():
        each = found.values.get(name)
        if each is None:
            rows.append((name, "no value that can be used" if name in found.given else "missing", ""))
        elif each.value is None:
            rows.append((name, f"not set: {key.setting.unset}", each.origin))
        else:
            rows.append((name, key.kind.toml(key.setting.public(each.value)), each.origin))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}".rstrip() for name, value, origin in rows]


def _sample(arguments: argparse.Namespace) -> None:
    from scope_cli.configuration.sample import sample

    for line in sample(DAEMONS[arguments.daemon]).splitlines():
        print_line(line)
