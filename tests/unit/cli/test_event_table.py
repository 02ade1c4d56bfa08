"""Rows in a terminal: columns are shown whole; columns that do not fit are named."""

from typing import Any

import pytest

from scope_cli.errors import UsageError
from scope_cli.event_table import EventTable

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
    """No line is wider than the terminal, no cell is cut, and hidden columns are named."""
    monkeypatch.setenv("COLUMNS", str(width))
    EventTable("exec").print([ROW])
    said, hidden = capsys.readouterr()
    head, row = said.splitlines()
    assert len(row.rstrip()) <= width
    assert head.split()[:4] == ["time", "comm", "pid", "filename"]
    assert row.split()[:4] == ["2026-01-31T12:00:00.123456", "cat", "4711", "/usr/bin/cat"]
    left_out = set(ROW) - set(head.split()) - {"ktime_ns"}
    assert all(name in hidden for name in left_out)
    assert bool(left_out) == (width < 200)


def test_chosen_columns_are_shown_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Chosen columns appear in the given order, lists written out; an unknown column is refused with the known ones."""
    EventTable("exec", ["args", "pid"]).print([ROW])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["args", "pid"],
        ["cat", "a", "file", "4711"],
    ]
    with pytest.raises(UsageError, match="stream 'exec': no column 'nonsense'; there are: time, "):
        EventTable("exec", ["nonsense"]).print([ROW])


def test_no_rows_are_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Without rows, nothing is printed."""
    EventTable("exec").print([])
    assert capsys.readouterr() == ("", "")


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_values_are_shown_as_people_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers have units and are aligned; registers and flags are hexadecimal; failures and signals have names."""
    call = {"arg0": -1, "arg1": 4096, "ret": -2, "duration_ns": 1_234_567}
    EventTable("syscall", list(call)).print([call, {**call, "ret": 7, "arg0": None}, {**call, "ret": -99_999}])
    assert _lines(capsys) == [
        "              arg0    arg1        ret  duration_ns",
        "0xffffffffffffffff  0x1000  -2 ENOENT      1.23 ms",
        "                 -  0x1000          7      1.23 ms",
        "0xffffffffffffffff  0x1000     -99999      1.23 ms",
    ]
    EventTable("open", ["flags", "path"]).print([{"flags": 0x80000, "path": "/etc/passwd"}])
    assert _lines(capsys) == ["  flags  path", "0x80000  /etc/passwd"]
    EventTable("exec", ["args", "cwd"]).print(
        [{"args": ["ls", "/"], "cwd": "/deep", "args_truncated": 1, "cwd_truncated": 1}]
    )
    assert _lines(capsys) == ["args     cwd", "ls /...  .../deep"]
    EventTable("exec", ["ret"]).print([{"ret": -13}])
    assert _lines(capsys) == ["       ret", "-13 EACCES"]
    EventTable("exit", ["signal"]).print([{"signal": 9}, {"signal": 0}])
    assert _lines(capsys) == ["   signal", "9 SIGKILL", "        0"]


def test_rows_that_come_later_are_below_the_same_heading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heading and the hidden columns are printed once; later rows keep the columns' positions."""
    monkeypatch.setenv("COLUMNS", "60")
    table = EventTable("exec")
    table.print([ROW])
    said, hidden = capsys.readouterr()
    assert "not shown" in hidden
    table.print([])
    table.print([{**ROW, "comm": "x", "pid": 1}])
    later, hidden = capsys.readouterr()
    _, first = said.splitlines()
    assert (later.count("\n"), hidden) == (1, "")
    assert [later.index("x"), later.index("/usr")] == [first.index("cat"), first.index("/usr")]
