"""The token file: made once, read strictly, compared whole."""

from pathlib import Path

import pytest

from scope_wire.errors import InvalidToken
from scope_wire.token import make_token, read_token, shows


def test_a_token_is_made_once(tmp_path: Path) -> None:
    """Readable by its owner only; a second call leaves it."""
    file = tmp_path / "state" / "token"
    make_token(file)
    token = read_token(file)
    make_token(file)
    assert read_token(file) == token
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "\n", "short", "line one is long enough\nline two", "umläute-und-mehr-davon"])
def test_a_file_that_holds_no_token_says_what_to_do(tmp_path: Path, text: str) -> None:
    """An empty one, as after a full disk, for one."""
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(InvalidToken, match="remove the file"):
        read_token(file)


def test_a_missing_file_and_an_open_one_are_named(tmp_path: Path) -> None:
    """With the remedy."""
    file = tmp_path / "token"
    with pytest.raises(InvalidToken, match="makes one"):
        read_token(file)
    file.write_text("long-enough-for-a-token")
    file.chmod(0o644)
    with pytest.raises(InvalidToken, match="chmod 600"):
        read_token(file)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer other", "bearer secret", b"Bearer secret", "\udcff"])
def test_only_the_token_itself_is_shown(header: object) -> None:
    """Nothing else passes, whatever its type."""
    assert not shows(header, "secret")
    assert shows("Bearer secret", "secret")
