"""`scope config`: checks the daemons' configuration, and writes documented files."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.configuration.daemons import DAEMONS, Daemon
from scope_cli.errors import CommandError
from scope_cli.printable import print_line, print_remark

if TYPE_CHECKING:
    from scope_cli.configuration.resolve import Resolved


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("config", help="check the configuration of agent and server, or document it")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="say what is wrong, or which value of each setting holds and where it came from",
        description="Says what is wrong with a daemon's configuration file and environment variables, or which value "
        "of each setting holds and where it came from. Without DAEMON: of every daemon that has a file in /etc/scope.",
    )
    check.add_argument("daemon", nargs="?", choices=list(DAEMONS), metavar="DAEMON", help="agentd or server")
    check.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: /etc/scope/DAEMON.toml")
    check.set_defaults(run=_check)
    sample = actions.add_parser("sample", help="print a configuration file with every setting explained")
    sample.add_argument("daemon", choices=list(DAEMONS), metavar="DAEMON", help="agentd or server")
    sample.set_defaults(run=_sample)


def _check(arguments: argparse.Namespace) -> None:
    from scope_cli.configuration.resolve import resolve

    if arguments.daemon:
        daemons = [DAEMONS[arguments.daemon]]
    else:
        daemons = [daemon for daemon in DAEMONS.values() if daemon.file.exists()]
        if not daemons:
            raise CommandError("there is no configuration in /etc/scope; name agentd or server, and maybe a file")
    problems = []
    for daemon in daemons:
        found = resolve(daemon, arguments.file, os.environ)
        problems += found.problems
        if not found.problems:
            missing = "" if arguments.file or daemon.file.exists() else f" (there is no {daemon.file})"
            print_line(f"{daemon.meaning}{missing}:")
            for line in _lines(daemon, found):
                print_line(f"  {line}")
        for note in found.notes:
            print_line(f"note: {note}")
    for problem in problems[:-1]:
        print_remark(f"scope: {problem}")
    if problems:
        raise CommandError(problems[-1])


def _lines(daemon: Daemon[Any], found: "Resolved") -> list[str]:
    from scope_cli.configuration.keys import keys

    rows = []
    for name, key in keys(daemon).items():
        each = found.values[name]
        value = f"not set: {key.setting.unset}" if each.value is None else key.kind.toml(key.setting.public(each.value))
        rows.append((name, value, each.origin))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}" for name, value, origin in rows]


def _sample(arguments: argparse.Namespace) -> None:
    from scope_cli.configuration.sample import sample

    for line in sample(DAEMONS[arguments.daemon]).splitlines():
        print_line(line)
