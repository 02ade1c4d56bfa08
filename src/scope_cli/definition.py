"""The part of a command line that defines a task: whom it watches, with which options."""

import argparse
from typing import Any

from scope_cli.errors import UsageError

_TARGETS = {
    "pid": (int, 0, "N", "a process, and the children it starts"),
    "comm": (str, "", "NAME", "threads of exactly this name"),
    "exe": (str, "", "PATH", "processes that run this file"),
    "cgroup": (str, "", "PATH", "a cgroup and those below it"),
    "container": (str, "", "ID", "a container"),
}


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds --pid and its kind."""
    group = parser.add_argument_group("target (all have to hold; none: the whole machine)")
    for name, (kind, default, metavar, meaning) in _TARGETS.items():
        group.add_argument(f"--{name}", type=kind, default=default, metavar=metavar, help=meaning)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds --mode and --option."""
    parser.add_argument("--mode", help="events or summary: short for -o mode=MODE")
    parser.add_argument(
        "-o", "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the probe"
    )


def given_target(arguments: argparse.Namespace) -> dict[str, Any]:
    """The target's fields that were given."""
    return {name: getattr(arguments, name) for name in _TARGETS if getattr(arguments, name)}


def given_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The probe's options that were given, as text.

    Raises:
        UsageError: one has no value.
    """
    options = {}
    for given in arguments.option:
        name, equals, value = given.partition("=")
        if not equals:
            raise UsageError(f"option '{given}' has no value; write -o {name}=VALUE")
        options[name] = value
    if arguments.mode:
        options["mode"] = arguments.mode
    return options
