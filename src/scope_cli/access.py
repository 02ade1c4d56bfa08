"""Which server the commands ask, and what they show it: that of `scope login`, or this machine's."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from scope_cli.errors import CommandError
from scope_cli.installation import another_users, running_state_dir, token_file, told_authority, told_url
from scope_wire.errors import InvalidToken
from scope_wire.token import read_token


@dataclass(frozen=True)
class Access:
    """A server, and what a client shows it.

    Attributes:
        url: without a slash at its end.
        token: the bearer token.
        authority: certificates in PEM; the server's must be of one of them. None: of an authority that this machine
            trusts, or, over http://, there is no certificate.
    """

    url: str
    token: str
    authority: str | None = None


def found() -> Access:
    """The server at SCOPE_URL, else that of SCOPE_STATE, else that of `scope login`, else where the server of this
    user's `scope up` listens, else where one of this machine listened last.

    Raises:
        CommandError: there is no token, or a file with certificates cannot be read.
    """
    given = os.environ.get("SCOPE_URL", "").rstrip("/")
    named = given or os.environ.get("SCOPE_STATE")
    if (login := read_login()) and (not named or given == login.url):
        return login
    state = running_state_dir()
    token, authority = os.environ.get("SCOPE_TOKEN_FILE"), os.environ.get("SCOPE_CA_FILE")
    trusted = Path(authority) if authority else None if given else told_authority(state)
    return installed(given or told_url(state), Path(token) if token else token_file(state), trusted)


def installed(url: str, token: Path, authority: Path | None) -> Access:
    """A server with these files.

    Raises:
        CommandError: one of them cannot be read, or others may read the token.
    """
    try:
        return Access(url, read_token(token), authority.read_text() if authority else None)
    except InvalidToken as error:
        raise CommandError(f"{error}{another_users()}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read the authority's certificate, {authority}: {error}") from None


def read_login() -> Access | None:
    """What `scope login` has kept.

    Raises:
        CommandError: it cannot be read.
    """
    file = _login_file()
    try:
        return Access(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"cannot read {file}: {error}; `scope logout` removes it") from None


def keep_login(access: Access) -> None:
    """Keeps an access for all later commands of this user, mode 0600.

    Raises:
        CommandError: it cannot be written.
    """
    file = _login_file()
    fresh = file.with_suffix(".new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(asdict(access), out)
        fresh.replace(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None


def forget_login() -> bool:
    """Removes what `scope login` has kept; returns whether there was anything."""
    file = _login_file()
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CommandError(f"cannot remove {file}: {error.strerror}") from None
    return True


def _login_file() -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME")
    return Path(configuration or Path.home() / ".config") / "scope" / "login.json"
