"""Settings as options of a command."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import Daemon
from scope_cli.configuration.keys import Key, keys


def add_config_flag(parser: argparse.ArgumentParser, daemon: Daemon[Any]) -> None:
    """Adds --config."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the configuration file (default: {daemon.file}, if it exists); see `scope config`",
    )


def add_flags(parser: argparse.ArgumentParser, daemon: Daemon[Any], names: Iterable[str] | None = None) -> None:
    """Adds an option for each setting, or only for the named ones. What is not given is None."""
    for name in keys(daemon) if names is None else names:
        key = keys(daemon)[name]
        told = [key.setting.meaning, "; may be repeated" if key.kind.many else "", f" (default: {key.default})"]
        parser.add_argument(
            key.flag,
            type=_reader(key),
            action="append" if key.kind.many else "store",
            metavar=key.metavar,
            help="".join(told if key.default else told[:-1]).replace("%", "%%"),
        )


def given(arguments: argparse.Namespace, daemon: Daemon[Any]) -> dict[str, Any]:
    """The settings that stand on the command line."""
    found = {name: getattr(arguments, name, None) for name in keys(daemon)}
    return {
        name: tuple(member for members in value for member in members) if keys(daemon)[name].kind.many else value
        for name, value in found.items()
        if value is not None
    }


def as_words(arguments: argparse.Namespace, daemon: Daemon[Any], names: Iterable[str]) -> list[str]:
    """Those of the named settings that stand on the command line, as arguments of another command."""
    return [f"{keys(daemon)[name].flag}={value}" for name, value in given(arguments, daemon).items() if name in names]


def _reader(key: Key) -> Any:
    def read(text: str) -> Any:
        try:
            return key.kind.of_text(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
