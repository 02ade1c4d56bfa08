"""The token file: created once, read strictly, compared as a whole."""

from pathlib import Path

import pytest

from scope_wire.errors import InvalidToken
from scope_wire.token import make_token, read_token, shows


def test_a_token_is_made_once(tmp_path: Path) -> None:
    """Only the owner can read the token file; a second call does not change it."""
    file = tmp_path / "state" / "token"
    make_token(file)
    token = read_token(file)
    make_token(file)
    assert read_token(file) == token
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "\n", "short", "line one is long enough\nline two", "umläute-und-mehr-davon"])
def test_a_file_that_holds_no_token_says_what_to_do(tmp_path: Path, text: str) -> None:
    """A file without a valid token is refused, such as an empty one after a full disk; the error says to remove it."""
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(InvalidToken, match="remove the file"):
        read_token(file)


def test_a_missing_file_and_an_open_one_are_named(tmp_path: Path) -> None:
    """A missing file, and a file that others can read, are refused with the remedy."""
    file = tmp_path / "token"
    with pytest.raises(InvalidToken, match="makes one"):
        read_token(file)
    file.write_text("long-enough-for-a-token")
    file.chmod(0o644)
    with pytest.raises(InvalidToken, match="chmod 600"):
        read_token(file)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer other", "bearer secret", b"Bearer secret", "\udcff"])
def test_only_the_token_itself_is_shown(header: object) -> None:
    """Only `Bearer` with the exact token passes; every other value is refused, of any type."""
    assert not shows(header, "secret")
    assert shows("Bearer secret", "secret")
