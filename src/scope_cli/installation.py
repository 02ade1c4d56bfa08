"""Where this machine's installation keeps its things, and where its server answers."""

import logging
import os
from contextlib import suppress
from pathlib import Path

HTTP = "127.0.0.1:8470"
INGEST = "127.0.0.1:8471"
CONTROL = "127.0.0.1:8472"
METRICS = "127.0.0.1:8473"

_log = logging.getLogger(__name__)


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


def url_of(address: str) -> str:
    """The URL of an API that listens on HOST:PORT; an IPv6 host may lack its brackets."""
    host, _, port = address.rpartition(":")
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{address}"


def tell_url(state: Path, url: str) -> None:
    """Writes where this installation's server answers into the state directory, for the command line to find."""
    fresh = _url_file(state).with_suffix(".new")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(url + "\n")
        fresh.replace(_url_file(state))
    except OSError as error:  # a full disk: it serves all the same
        _log.warning("cannot say where the API is", extra={"file": str(_url_file(state)), "reason": error.strerror})


def told_url(state: Path) -> str:
    """Where this installation's server answers, or did when it ran last; the usual place if it never did."""
    with suppress(OSError, UnicodeDecodeError):
        url = _url_file(state).read_text().strip()
        if url.startswith("http://"):
            return url
    return url_of(HTTP)


def _url_file(state: Path) -> Path:
    return state / "api-url"
