"""Decides which value of a setting holds: a flag before a variable before the file before the default."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from scope_catalogue.nearest import meant
from scope_cli.configuration.daemons import Daemon, Settings
from scope_cli.configuration.file import read
from scope_cli.configuration.keys import Key, keys
from scope_cli.errors import UsageError
from scope_cli.installation import state_dir

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Value:
    """A value, and where it came from: `--http`, `SCOPE_SERVER_HTTP`, `/etc/scope/server.toml:12` or `default`."""

    value: Any
    origin: str


@dataclass
class Resolved:
    """The values of a daemon's settings.

    Attributes:
        problems: what is wrong, each with its place and the remedy; if there are none, `values` has every setting.
        given: the settings that were given, with a value that is right or wrong.
        notes: what may be a mistake.
    """

    values: dict[str, Value] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, key: Key, given: Any, read: Callable[[Any], Any], origin: str, label: str) -> None:
        """Reads, checks and keeps a value; problems call it by the label."""
        self.given.add(key.name)
        try:
            value = read(given)
        except ValueError as error:
            self.problems.append(f"{label}: {error}")
            return
        try:
            if key.setting.check:
                key.setting.check(value, label)
        except ValueError as error:
            self.problems.append(str(error))
            return
        self.values[key.name] = Value(value, origin)


def resolve(
    daemon: Daemon[Any], file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any] | None = None
) -> Resolved:
    """All settings of a daemon.

    Args:
        file: the configuration file; None: the usual one, if it exists.
        flags: values by setting.

    Raises:
        UsageError: the file cannot be read, or is no TOML.
    """
    found = Resolved()
    _take_file(found, daemon, file)
    for name, text in environment.items():
        if name.startswith(daemon.prefix) and text:
            _take_variable(found, daemon, name, text)
    for name, value in (flags or {}).items():
        key = keys(daemon)[name]
        found.take(key, value, _as_it_is, key.flag, key.flag)
    _add_defaults(found, daemon)
    return found


def load(
    daemon: Daemon[Settings], file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """The settings of a daemon; what may be a mistake is logged.

    Raises:
        UsageError: something is wrong; the message says everything, with its place and the remedy.
    """
    found = resolve(daemon, file, environment, flags)
    for note in found.notes:
        _log.warning(note)
    if found.problems:
        raise UsageError("; ".join(found.problems))
    return daemon.settings(**{name: each.value for name, each in found.values.items()})


def _take_file(found: Resolved, daemon: Daemon[Any], file: Path | None) -> None:
    path = daemon.file if file is None else file
    try:
        entries = read(path)
    except FileNotFoundError:
        if file is not None:
            raise UsageError(f"{file} does not exist; `scope config sample {daemon.name}` writes one") from None
        return
    for name, entry in entries.items():
        origin = f"{path}:{entry.line}"
        key = keys(daemon).get(name)
        if key is None:
            found.problems.append(
                f"{origin}: {daemon.name} has no setting '{name}'{meant(name, keys(daemon))}; "
                f"`scope config sample {daemon.name}` shows all"
            )
            continue
        found.take(key, entry.value, key.kind.of_toml, origin, f"{origin}: {name}")


def _take_variable(found: Resolved, daemon: Daemon[Any], variable: str, text: str) -> None:
    by_variable = {key.variable: key for key in keys(daemon).values()}
    key = by_variable.get(variable)
    if key is None:  # no error: Kubernetes makes such variables for a service that is named scope-server
        nearest = meant(variable.removeprefix(daemon.prefix), keys(daemon))
        found.notes.append(f"{variable} is the variable of no setting{nearest}")
        return
    found.take(key, text, key.kind.of_text, variable, variable)


def _as_it_is(value: Any) -> Any:
    return value


def _add_defaults(found: Resolved, daemon: Daemon[Any]) -> None:
    given = found.values.get("state_dir")
    state = given.value if given else state_dir()
    for name, key in keys(daemon).items():
        if name in found.given:
            continue
        value = key.default_value(state)
        if value is MISSING:
            found.problems.append(
                f"{name} is missing; write it into {daemon.file}, or give {key.flag} or {key.variable}"
            )
        else:
            found.values[name] = Value(value, "default")
