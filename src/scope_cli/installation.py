"""Where this machine's installation keeps its things, and where its server answers."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scope_wire.endpoint import Endpoint

HTTP = "127.0.0.1:8470"
INGEST = "127.0.0.1:8471"
CONTROL = "127.0.0.1:8472"
METRICS = "127.0.0.1:8473"
ENROL = "127.0.0.1:8474"
ADDRESSES = {"http": HTTP, "ingest": INGEST, "enrol": ENROL, "control": CONTROL, "metrics": METRICS}
JOIN_TOKEN = "SCOPE_JOIN_TOKEN"  # environment variable

ROOTS_STATE = Path("/var/lib/scope")
_RUN = Path("/run")
_log = logging.getLogger(__name__)


def state_dir() -> Path:
    """SCOPE_STATE, or the usual place: /var/lib/scope for root."""
    given = os.environ.get("SCOPE_STATE")
    return Path(given) if given else ROOTS_STATE if os.geteuid() == 0 else _users() / "scope"


def running_state_dir() -> Path:
    """SCOPE_STATE, or the state directory of a `scope up` that this user runs now, or the usual directory."""
    if not os.environ.get("SCOPE_STATE"):
        for file in _running_files():
            with suppress(OSError, ValueError):
                pid, state = file.read_text().rstrip("\n").split(" ", 1)
                if file.stat().st_uid == os.geteuid() and Path("/proc", str(int(pid))).exists():
                    return Path(state)
    return state_dir()


@contextmanager
def told_running(state: Path) -> Iterator[None]:
    """Makes `running_state_dir` return this state directory for the duration of the block."""
    told = f"{os.getpid()} {state}\n"
    for file in _running_files():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _replace(file, told)
        except OSError as error:  # users can still set SCOPE_STATE
            _log.warning("cannot write where the state directory is", extra={"file": file, "reason": error.strerror})
    try:
        yield
    finally:
        for file in _running_files():
            with suppress(OSError, UnicodeDecodeError):
                if file.read_text() == told:  # no other `scope up` was started since
                    file.unlink()


def another_users() -> str:
    """The end of a message for users other than root, if root has a SCOPE on this machine; else empty."""
    if os.geteuid() and ROOTS_STATE.is_dir():
        return "; root has a SCOPE on this machine: call `sudo scope`, or use `scope login`"
    return ""


def authority_dir(state: Path) -> Path:
    """Where the server's certificate authority has its key and its certificate."""
    return state / "authority"


def postgres_dir(state: Path) -> Path:
    """Where the private PostgreSQL has its data and its socket."""
    return state / "postgres"


def url_of(endpoint: Endpoint) -> str:
    """The URL, on this machine, of an API that listens there: HTTPS if other machines reach it."""
    if endpoint.is_loopback:
        return f"http://{endpoint}"
    return f"https://{endpoint.at(host='127.0.0.1') if endpoint.is_everywhere else endpoint}"


def tell_url(state: Path, url: str, socket: Path) -> None:
    """Writes where this installation's server answers into the state directory, for the command line to find.

    Args:
        socket: the Unix socket at which it answers without a login.
    """
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(_url_file(state), f"{url}\n{socket}\n")
    except OSError as error:  # a full disk: it serves all the same
        _log.warning("cannot say where the API is", extra={"file": str(_url_file(state)), "reason": error.strerror})


def told_url(state: Path) -> str:
    """Where this installation's server answers, or did when it ran last; the usual place if it never did."""
    return _told(state)[0]


def told_socket(state: Path) -> Path:
    """The Unix socket of that server."""
    return _told(state)[1]


def api_socket(state: Path) -> Path:
    """The Unix socket of a server with this state directory, unless its settings say otherwise."""
    return state / "api.sock"


def _told(state: Path) -> tuple[str, Path]:
    with suppress(OSError, UnicodeDecodeError):
        url, _, socket = _url_file(state).read_text().strip().partition("\n")
        if url.startswith(("http://", "https://")) and socket:
            return url, Path(socket)
    return f"http://{HTTP}", api_socket(state)


def _url_file(state: Path) -> Path:
    return state / "api-url"


def _running_files() -> list[Path]:
    """Files with the state directory of a running `scope up`. There are two: sudo does not set XDG_RUNTIME_DIR."""
    session = os.environ.get("XDG_RUNTIME_DIR")
    always = _RUN if os.geteuid() == 0 else _users()
    return [folder / "scope-running" for folder in (*([Path(session)] if session else []), always)]


def _users() -> Path:
    return Path.home() / ".local" / "state"


def _replace(path: Path, text: str) -> None:
    """Writes a file at once; only its owner may read it."""
    fresh = path.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)
