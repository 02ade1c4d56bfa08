"""The command line: finds the subcommands, runs one, turns errors into a line and a status.

A subcommand is a module of `scope_cli.commands` with `register(subcommands)`. Its heavier imports wait until it runs.
"""

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import NoReturn

import scope_cli
import scope_cli.commands
from scope_cli import logs
from scope_cli.errors import CommandError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"scope: {message}; see `{self.prog} --help`\n")


def run(arguments: Sequence[str] | None) -> int:
    """Runs the command line; returns the exit status."""
    parser = _Parser(prog="scope", description="Shows why things are slow: CUDA, LLM inference, Python, the kernel.")
    parser.set_defaults(takes_command=False)
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in pkgutil.iter_modules(scope_cli.commands.__path__):
        importlib.import_module(f"scope_cli.commands.{module.name}").register(subcommands)
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    parsed = parser.parse_args(words[:end])
    parsed.command = words[end + 1 :]  # argparse would have options of the command be ours
    if end < len(words) and not parsed.command:
        parser.error("no command stands behind --; give one, or leave -- out")
    if parsed.command and not parsed.takes_command:
        parser.error("only `scope trace` takes a command behind --")
    if not parsed.takes_command:  # whose environment is its user's
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is told in our own words
    try:
        logs.configure()
        return int(parsed.run(parsed) or 0)
    except CommandError as error:
        print(f"scope: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more; do not complain
        return 1
