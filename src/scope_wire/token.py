"""Files with a token of the API, which scripts name in SCOPE_TOKEN_FILE."""

from pathlib import Path

from scope_wire.errors import InvalidToken

_SHORTEST = 16  # characters


def read_token(file: Path) -> str:
    """The token in a file.

    Raises:
        InvalidToken: the file does not exist, contains no token, or may be read by other users.
    """
    try:
        text = file.read_text().strip()
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise InvalidToken(f"{file} does not exist; `scope token make NAME` makes a token") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidToken(f"cannot read {file}: {error}") from None
    if mode & 0o077:
        raise InvalidToken(f"other users may read {file}; run `chmod 600 {file}`")
    if len(text) < _SHORTEST or not text.isascii() or not text.isprintable():
        raise InvalidToken(f"{file} contains no token")
    return text
