"""Rows in a terminal: whole columns, and word of those that do not fit."""

from typing import Any

import pytest

from scope_cli.errors import UsageError
from scope_cli.event_table import print_rows

ROW: dict[str, Any] = {
    "time": "2026-01-31T12:00:00.123456789Z",
    "ktime_ns": 5,
    "comm": "cat",
    "pid": 4711,
    "tid": 4712,
    "uid": 0,
    "cpu": 1,
    "filename": "/usr/bin/cat",
    "args": ["cat", "a file"],
    "cwd": "/",
    "ppid": 1,
    "ret": 0,
    "args_truncated": 0,
    "cwd_truncated": 0,
}


@pytest.mark.parametrize("width", [60, 80, 200])
def test_columns_are_shown_whole_or_not_at_all(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer than the terminal, no cell is cut, and what is left out is named."""
    monkeypatch.setenv("COLUMNS", str(width))
    print_rows("exec", [ROW])
    said, hidden = capsys.readouterr()
    head, row = said.splitlines()
    assert len(row.rstrip()) <= width
    assert head.split()[:4] == ["time", "comm", "pid", "filename"]
    assert row.split()[:4] == ["2026-01-31T12:00:00.123456", "cat", "4711", "/usr/bin/cat"]
    left_out = set(ROW) - set(head.split()) - {"ktime_ns"}
    assert all(name in hidden for name in left_out)
    assert bool(left_out) == (width < 200)


def test_chosen_columns_are_shown_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists are written out; an unknown name is refused with those there are."""
    print_rows("exec", [ROW], ["args", "pid"])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["args", "pid"],
        ["cat", "a", "file", "4711"],
    ]
    with pytest.raises(UsageError, match="has no column 'nonsense'; it has: time, "):
        print_rows("exec", [ROW], ["nonsense"])


def test_no_rows_are_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was found, and nothing is printed."""
    print_rows("exec", [])
    assert capsys.readouterr() == ("", "")
