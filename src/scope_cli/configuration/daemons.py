"""The daemons that have settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from scope_agentd.settings import Settings as AgentSettings
from scope_server.settings import Settings as ServerSettings

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Daemon(Generic[Settings]):
    """A daemon.

    Attributes:
        name: its subcommand.
        meaning: for documentation.
        settings: the dataclass in which each setting is declared.
    """

    name: str
    meaning: str
    settings: type[Settings]

    @property
    def file(self) -> Path:
        """The configuration file that is read if it exists and no other is named."""
        return Path("/etc/scope", f"{self.name}.toml")

    @property
    def prefix(self) -> str:
        """How the names of its environment variables begin."""
        return f"SCOPE_{self.name.upper()}_"


AGENTD = Daemon("agentd", "the agent, `scope agentd`", AgentSettings)
SERVER = Daemon("server", "the server, `scope server`", ServerSettings)
DAEMONS: dict[str, Daemon[Any]] = {daemon.name: daemon for daemon in (AGENTD, SERVER)}
