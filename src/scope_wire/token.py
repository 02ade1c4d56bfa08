"""The bearer token of the API: a file made by the server; clients send the token with each request."""

import hmac
import os
import secrets
from pathlib import Path

from scope_wire.errors import InvalidToken

_SHORTEST = 16  # characters; `make_token` writes 43


def make_token(file: Path) -> None:
    """Makes the file with a new token, mode 0600, unless the file exists.

    Raises:
        InvalidToken: the file cannot be made.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise InvalidToken(f"token_file: cannot make {file}: {error.strerror}") from None


def read_token(file: Path) -> str:
    """The token in a file.

    Raises:
        InvalidToken: the file does not exist, contains no token, or may be read by other users.
    """
    try:
        text = file.read_text().strip()
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise InvalidToken(f"token_file: {file} does not exist; `scope up` or `scope server` makes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidToken(f"token_file: cannot read {file}: {error}") from None
    if mode & 0o077:
        raise InvalidToken(f"token_file: other users may read {file}; run `chmod 600 {file}`")
    if len(text) < _SHORTEST or not text.isascii() or not text.isprintable():
        raise InvalidToken(f"token_file: {file} contains no token; remove the file, and the server makes a new one")
    return text


def shows(authorization: object, token: str) -> bool:
    """Whether an `authorization` header has the token; compares in constant time."""
    if not isinstance(authorization, str):
        return False
    return hmac.compare_digest(authorization.encode(errors="replace"), f"Bearer {token}".encode())
