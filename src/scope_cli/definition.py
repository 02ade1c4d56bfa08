"""The part of a command line that defines a task: whom it watches, with which options."""

import argparse
from typing import Any

from scope_cli.errors import UsageError

_TARGETS = {
    "pid": (int, "N", "a process, and the children it starts"),
    "comm": (str, "NAME", "threads of exactly this name"),
    "exe": (str, "PATH", "processes that run this file"),
    "cgroup": (str, "PATH", "a cgroup and those below it"),
    "container": (str, "NAME", "a container: its name, or the first 12 digits of its id or more"),
}


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds --pid and its kind."""
    group = parser.add_argument_group("target (all have to hold; none: the whole machine)")
    for name, (kind, metavar, meaning) in _TARGETS.items():
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=meaning)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds --mode and --option."""
    parser.add_argument("--mode", help="events or summary: short for -o mode=MODE")
    parser.add_argument(
        "-o", "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the probe"
    )


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Adds --where."""
    parser.add_argument(
        "--where", metavar="FILTER", help="record only rows that meet it, such as 'ret < 0 and duration > 1ms'"
    )


def positional_option(arguments: argparse.Namespace) -> str:
    """The option of the probes that takes words after their names; empty if they have none, or are unknown."""
    from scope_catalogue.catalogue import probe_named
    from scope_catalogue.errors import UnknownProbe

    try:
        probes = [probe_named(name) for name in arguments.probe.split(",")]
    except UnknownProbe:
        return ""
    return next((option.name for probe in probes for option in probe.options if option.positional), "")


def given_target(arguments: argparse.Namespace) -> dict[str, Any]:
    """The target's fields that were given, whatever they are."""
    return {name: given for name in _TARGETS if (given := getattr(arguments, name)) is not None}


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The probe's options that were given: text, or the list of words after its name.

    Raises:
        UsageError: one has no value, or is given twice.
    """
    options: dict[str, Any] = {}
    for given in (*arguments.option, *([f"mode={arguments.mode}"] if arguments.mode is not None else [])):
        name, equals, value = given.partition("=")
        if not equals:
            raise UsageError(f"option '{given}' has no value; write -o {name}=VALUE (-o sets an option of the probe)")
        if name in options:
            raise UsageError(f"option '{name}' is given twice, as '{options[name]}' and as '{value}'; give it once")
        options[name] = value
    if arguments.words:
        name = positional_option(arguments)
        if name in options:
            raise UsageError(f"option '{name}' is given twice, as '{options[name]}' and as '{arguments.words[0]}'")
        options[name] = arguments.words
    return options


def given_part(arguments: argparse.Namespace, probe: str) -> dict[str, Any]:
    """A probe with the options and the filter that were given, as the API takes it.

    Raises:
        UsageError: an option has no value, or is given twice.
    """
    where = {} if arguments.where is None else {"where": arguments.where}
    return {"probe": probe, "options": given_options(arguments), **where}
