"""The files of a service, below a root directory."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import Daemon
from scope_cli.configuration.keys import keys
from scope_cli.configuration.sample import sample

_PROGRAM = "/usr/bin/scope"  # as the unit in deploy/systemd calls it
_HIDDEN = ("/tmp", "/var/tmp", "/home", "/root", "/run/user")  # from services by PrivateTmp= and ProtectHome=


@dataclass(frozen=True)
class Service:
    """A daemon as a service.

    Attributes:
        root: the directory below which the files lie: `/`, or that of another system, such as an image.
        chosen: settings that are given.
    """

    daemon: Daemon[Any]
    root: Path = Path("/")
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the unit, the user and the state directory."""
        return f"scope-{self.daemon.name}"

    @property
    def unit(self) -> Path:
        """The unit's file."""
        return self._below(Path("/etc/systemd/system", f"{self.name}.service"))

    @property
    def sysusers(self) -> Path:
        """The file from which systemd-sysusers(8) makes the user."""
        return self._below(Path("/etc/sysusers.d", f"{self.name}.conf"))

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self._below(self.daemon.file)

    @property
    def state(self) -> Path:
        """The state directory."""
        return self._below(_state(self.name))

    def unit_text(self, program: Path) -> str:
        """The unit that runs this program."""
        return _packaged(f"{self.name}.service").replace(f"={_PROGRAM} ", f"={_quoted(program)} ")

    def sysusers_text(self) -> str:
        """The user's declaration."""
        return _packaged(f"{self.name}.sysusers")

    def config_text(self) -> str:
        """The configuration of a new installation."""
        return sample(self.daemon, self._chosen())

    def _chosen(self) -> Mapping[str, Any]:
        """The settings without which the service would not start."""
        required = {name: key.setting.example for name, key in keys(self.daemon).items() if not key.default}
        return {**required, "state_dir": _state(self.name), **self.chosen}

    def _below(self, path: Path) -> Path:
        return self.root / path.relative_to("/")


def own_program() -> Path:
    """The `scope` command of this installation."""
    return Path(sys.executable).with_name("scope")


def why_hidden(program: Path) -> str:
    """Why a service cannot run this program; empty if it can."""
    for path in (program, Path(sys.executable).resolve()):
        for hidden in _HIDDEN:
            if path.is_relative_to(hidden):
                return f"{path} is below {hidden}, which services do not see; install SCOPE below /opt or /usr/local"
    return ""


def _state(name: str) -> Path:
    return Path("/var/lib", name)


def _packaged(name: str) -> str:
    return (resources.files("scope_cli.service") / "units" / name).read_text()


def _quoted(program: Path) -> str:
    """A path in ExecStart=, see systemd.service(5): % begins a specifier, $ a variable."""
    text = str(program).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if any(character in text for character in " \"'\\") else text
