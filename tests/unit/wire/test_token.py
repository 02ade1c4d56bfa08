"""Files with a token are read strictly."""

from pathlib import Path

import pytest

from scope_wire.errors import InvalidToken
from scope_wire.token import read_token


@pytest.mark.parametrize("text", ["", "\n", "short", "line one is long enough\nline two", "umläute-und-mehr-davon"])
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, text: str) -> None:
    """A file without a valid token is refused, such as an empty one after a full disk."""
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(InvalidToken, match="contains no token"):
        read_token(file)


def test_a_missing_file_and_an_open_one_are_named(tmp_path: Path) -> None:
    """A missing file, and a file that others can read, are refused with the remedy."""
    file = tmp_path / "token"
    with pytest.raises(InvalidToken, match="makes a token"):
        read_token(file)
    file.write_text("long-enough-for-a-token")
    file.chmod(0o644)
    with pytest.raises(InvalidToken, match="chmod 600"):
        read_token(file)
