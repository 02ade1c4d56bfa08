"""The bearer token: one file, which the server makes and whoever calls it shows."""

import hmac
import os
import secrets
from pathlib import Path

from scope_wire.errors import InvalidToken

_SHORTEST = 16  # characters; what `make` writes has 43


def make_token(file: Path) -> None:
    """Makes the file with a new token, mode 0600, unless it is there.

    Raises:
        InvalidToken: it cannot be made.
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
        InvalidToken: there is none, it is too short to be one, or others may read the file.
    """
    try:
        text = file.read_text().strip()
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise InvalidToken(f"token_file: there is no {file}; `scope up` or `scope server` makes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidToken(f"token_file: cannot read {file}: {error}") from None
    if mode & 0o077:
        raise InvalidToken(f"token_file: others may read {file}; `chmod 600` it")
    if len(text) < _SHORTEST or not text.isascii() or not text.isprintable():
        raise InvalidToken(f"token_file: {file} holds no token; remove it, and the server makes a new one")
    return text


def shows(authorization: object, token: str) -> bool:
    """Whether an `authorization` header shows the token; takes as long for every wrong one."""
    if not isinstance(authorization, str):
        return False
    return hmac.compare_digest(authorization.encode(errors="replace"), f"Bearer {token}".encode())


def metadata(token: str) -> tuple[tuple[str, str], ...]:
    """What a gRPC call shows."""
    return (("authorization", f"Bearer {token}"),)
