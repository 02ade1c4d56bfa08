"""Checks of settings, and files with secrets."""

from pathlib import Path

import pytest

from scope_wire.errors import InvalidSetting
from scope_wire.secret import read_secret
from scope_wire.setting import above_zero, at_least, one_of


def test_one_of_a_few() -> None:
    """Another text is told with those that are allowed."""
    one_of("all", "api")("api", "role")
    with pytest.raises(InvalidSetting, match="role: 'API' is none of all, api"):
        one_of("all", "api")("API", "role")


def test_numbers_have_bounds() -> None:
    """The error names the setting, the number and the least one."""
    at_least(0)(0, "keep")
    above_zero(0.1, "keep")
    with pytest.raises(InvalidSetting, match="keep: 5 is too small; give 1M or more"):
        at_least(1 << 20, "1M")(5, "keep")
    with pytest.raises(InvalidSetting, match="keep: 0 is not above 0"):
        above_zero(0, "keep")


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n", b"\xff", None])
def test_a_file_without_a_secret_is_told(content: bytes | None, tmp_path: Path) -> None:
    """The error names the setting and the file, and has nothing of what stands in the file."""
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidSetting, match=f"token_file: .*{file}") as told:
        read_secret(file, "token_file")
    assert "two" not in str(told.value)


def test_a_secret_may_have_any_character(tmp_path: Path) -> None:
    """Blanks belong to it; the line's end does not."""
    file = tmp_path / "secret"
    file.write_text(" it's \\ here \n")
    assert read_secret(file, "token_file") == " it's \\ here "
