"""Where this machine's installation keeps its things, and where its server answers."""

import os
from pathlib import Path

HTTP = "127.0.0.1:8470"
INGEST = "127.0.0.1:8471"
CONTROL = "127.0.0.1:8472"
METRICS = "127.0.0.1:8473"


def state_dir() -> Path:
    """SCOPE_STATE, or the usual place: /var/lib/scope for root."""
    given = os.environ.get("SCOPE_STATE")
    if given:
        return Path(given)
    return Path("/var/lib/scope") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "scope"


def token_file(state: Path) -> Path:
    """Where the token lies that the API and the gRPC services ask for."""
    return state / "token"


def postgres_dir(state: Path) -> Path:
    """Where the private PostgreSQL has its data and its socket."""
    return state / "postgres"
