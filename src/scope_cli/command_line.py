"""The command line: finds the subcommands, runs one, turns errors into a line and a status.

A subcommand is the module of `scope_cli.commands` with its name, and has `register(subcommands)`. Its heavier imports
wait until it runs.
"""

import argparse
import importlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import scope_cli
import scope_cli.commands
from scope_cli import logs
from scope_cli.errors import CommandError
from scope_cli.printable import print_line, print_remark
from scope_views.printable import printable
from scope_wire.tls import only_tls_1_3


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"scope: {printable(message)}; see `{self.prog} --help`\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from scope_catalogue.nearest import meant

            listed = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"'{value}' is not one of {listed}{meant(str(value), action.choices)}")


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print_line(f"scope {version('scope-observe')}")
        parser.exit()


def run(arguments: Sequence[str] | None) -> int:
    """Runs the command line; returns the exit status."""
    parser = _Parser(prog="scope", description="Shows why programs are slow: syscalls, scheduling, files, CUDA.")
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    parser.set_defaults(takes_command=False, takes_words=lambda _: False)
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in _needed(words):
        importlib.import_module(f"scope_cli.commands.{name}").register(subcommands)
    if sys.stdout is None:  # it was closed before we were started
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack a character
    end = words.index("--") if "--" in words else len(words)
    parsed, strange = parser.parse_known_args(words[:end])
    parsed.words = strange
    if strange and (any(word.startswith("-") for word in strange) or not parsed.takes_words(parsed)):
        parser.exit(2, f"scope: {printable(_of_strange(strange, words, parsed))}\n")
    parsed.command = words[end + 1 :]  # argparse would have options of the command be ours
    if end < len(words) and not parsed.command:
        parser.error("no command stands behind --; give one, or leave -- out")
    if parsed.command and not parsed.takes_command:
        parser.error("only `scope trace` takes a command behind --")
    if not parsed.takes_command:  # whose environment is its user's
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is told in our own words
    only_tls_1_3()
    try:
        logs.configure()
        status = int(parsed.run(parsed) or 0)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print_remark(f"scope: {error}")
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more, which is no error
        return 0


def _needed(words: Sequence[str]) -> Sequence[str]:
    """The subcommand that runs; all, if help or an error lists them. Importing all of them takes 30 ms."""
    (folder,) = map(Path, scope_cli.commands.__path__)
    known = sorted(file.stem for file in folder.glob("[!_]*.py"))
    return words[:1] if words[:1] and words[0] in known else known


def _of_strange(strange: Sequence[str], words: Sequence[str], parsed: argparse.Namespace) -> str:
    """What to say about words that nothing takes."""
    is_option = strange[0].startswith("-")
    if parsed.takes_command and not is_option:
        place = words.index(strange[0])
        return f"put -- before the command: scope {' '.join(words[:place])} -- {' '.join(words[place:])}"
    if "where" in parsed and not is_option:
        where = " ".join([parsed.where, *strange] if parsed.where else strange)
        return f"put the filter behind --where, in quotes: --where {shlex.quote(where)}"
    return f"unrecognized arguments: {' '.join(strange)}; see `scope {words[0]} --help`"
