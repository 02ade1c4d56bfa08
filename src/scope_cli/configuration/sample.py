"""Writes the documented configuration file."""

import textwrap
from collections.abc import Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import Daemon
from scope_cli.configuration.keys import Key, keys
from scope_cli.installation import ROOTS_STATE

_WIDTH = 100


def sample(daemon: Daemon[Any], values: Mapping[str, Any] | None = None) -> str:
    """The text of a file with every setting; those without a value in `values` are commented out."""
    head = (
        f"Settings of {daemon.meaning}. A line with # in front has the default, or an example where there is none. "
        f"An option on the command line counts before an environment variable, a variable before this file. "
        f"`scope config check {daemon.name}` says what is wrong with them, and `scope config show {daemon.name}` "
        f"which values hold."
    )
    values = values or {}
    state = values.get("state_dir", ROOTS_STATE)
    parts = [_comment(head), *(_part(key, values.get(name), state) for name, key in keys(daemon).items())]
    return "\n".join(parts)


def _part(key: Key, value: Any, state: Path) -> str:
    meaning = key.setting.meaning[0].upper() + key.setting.meaning[1:]
    form = "Form" if key.kind.metavar == "TEXT" else "Unit"
    unit = f" {form}: {key.setting.unit}." if key.setting.unit else ""
    default = f"Default: {key.default}" if key.default else "No default: a value is required"
    told = f"{_comment(f'{meaning}.{unit}')}{_comment(f'{default}. Option: {key.flag}. Variable: {key.variable}.')}"
    if value is not None:
        return f"{told}{key.name} = {key.kind.toml(value)}\n"
    return f"{told}#{key.name} = {key.kind.toml(_example(key, state))}\n"


def _example(key: Key, state: Path) -> Any:
    """The default; where it is no fixed value, something like it."""
    value = key.default_value(state)
    return key.setting.example if value in (MISSING, None) else value


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False) + "\n"
