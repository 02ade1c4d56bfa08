"""The names of a setting: on the command line, in the environment and in the file."""

from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import Daemon
from scope_cli.configuration.kinds import Kind, kind_of
from scope_cli.installation import ROOTS_STATE
from scope_wire.setting import Setting, declared


@dataclass(frozen=True)
class Key:
    """One setting of a daemon.

    Attributes:
        name: the key in the file, and the field of the daemon's `Settings`.
        flag, variable: its other names.
        fixed: the default; MISSING if there is none, or if it depends on the state directory.
    """

    name: str
    flag: str
    variable: str
    kind: Kind
    setting: Setting
    fixed: Any

    @property
    def metavar(self) -> str:
        """Stands for a value in the help."""
        of_text = self.kind.metavar == "TEXT"
        return self.setting.unit if of_text and self.setting.unit else self.kind.metavar

    @property
    def default(self) -> str:
        """The default, for documentation; empty if a value is required."""
        if self.name == "state_dir":
            return f"$SCOPE_STATE, or {ROOTS_STATE} for root"
        if self.setting.within_state:
            return f"{self.setting.within_state} in state_dir"
        if self.fixed is MISSING:
            return ""
        if self.fixed is None:
            return self.setting.unset
        return self.kind.toml(self.fixed).strip('"')

    def default_value(self, state: Path) -> Any:
        """The default where this is the state directory; MISSING if a value is required."""
        if self.name == "state_dir":
            return state
        return state / self.setting.within_state if self.setting.within_state else self.fixed


@cache
def keys(daemon: Daemon[Any]) -> dict[str, Key]:
    """All settings of a daemon, by name."""
    defaults = {field.name: field.default for field in fields(daemon.settings)}
    return {
        name: Key(
            name,
            f"--{name.replace('_', '-')}",
            f"{daemon.prefix}{name.upper()}",
            kind_of(wanted, setting),
            setting,
            defaults[name],
        )
        for name, (wanted, setting) in declared(daemon.settings).items()
    }
