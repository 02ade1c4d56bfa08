"""Which server the commands ask, and what they show it: that of `scope login`, or this machine's."""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scope_cli.errors import CommandError
from scope_cli.installation import another_users, running_state_dir, told_socket, told_url
from scope_cli.kept import keep, kept_file
from scope_wire.errors import InvalidToken
from scope_wire.token import read_token

_FILE = "login.json"


@dataclass(frozen=True)
class Access:
    """A server, and what a client shows it.

    Attributes:
        url: without a slash at its end.
        socket: path of the Unix socket at which it is asked instead, without a login. None: at the URL.
        token: for scripts, or the access token of a login.
        refresh_token: of a login, for the next tokens.
        authority: certificates in PEM; the server's must be of one of them. None: of an authority that this machine
            trusts, or, over http://, there is no certificate.
    """

    url: str
    socket: str | None = None
    token: str | None = None
    refresh_token: str | None = None
    authority: str | None = None


def found() -> Access:
    """The server at SCOPE_URL, else that of SCOPE_STATE, else that of `scope login`, else where the server of this
    user's `scope up` listens, else where one of this machine listened last.

    Raises:
        CommandError: there is no token, a file cannot be read, or another user runs the server.
    """
    given = os.environ.get("SCOPE_URL", "").rstrip("/")
    named = given or os.environ.get("SCOPE_STATE")
    if (login := read_login()) and (not named or given == login.url):
        return login
    if not given:
        state = running_state_dir()
        return local(told_url(state), told_socket(state))
    token, authority = os.environ.get("SCOPE_TOKEN_FILE"), os.environ.get("SCOPE_CA_FILE")
    if not token:
        raise CommandError("SCOPE_URL needs a token: name the file with one in SCOPE_TOKEN_FILE, or use `scope login`")
    try:
        return Access(
            given, token=read_token(Path(token)), authority=Path(authority).read_text() if authority else None
        )
    except InvalidToken as error:
        raise CommandError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read the authority's certificate, {authority}: {error}") from None


def local(url: str, socket: Path) -> Access:
    """A server of this machine.

    Raises:
        CommandError: another user runs it.
    """
    try:
        socket.stat()
    except PermissionError:
        raise CommandError(f"cannot use {socket}{another_users()}") from None
    except FileNotFoundError:
        if hint := another_users():
            raise CommandError(f"no server listens at {socket}{hint}") from None
    return Access(url, socket=str(socket))


def read_login() -> Access | None:
    """What `scope login` has kept.

    Raises:
        CommandError: it cannot be read.
    """
    file = kept_file(_FILE)
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
    keep(_FILE, asdict(access))


def refreshed(access: Access, refresh: Callable[[str], tuple[str, str]]) -> Access:
    """A login with its next tokens, which are kept. Of several commands that need them at the same time, one asks.

    Args:
        refresh: access and refresh token for a refresh token.
    """
    folder = os.open(kept_file(_FILE).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        kept = read_login()
        if kept and kept.url == access.url and kept.token != access.token:
            return kept  # another command has just asked
        token, next_token = refresh(access.refresh_token or "")
        fresh = replace(access, token=token, refresh_token=next_token)
        keep_login(fresh)
        return fresh
    finally:
        os.close(folder)


def forget_login() -> bool:
    """Removes what `scope login` has kept; returns whether there was anything."""
    file = kept_file(_FILE)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CommandError(f"cannot remove {file}: {error.strerror}") from None
    return True
