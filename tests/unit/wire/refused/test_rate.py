"""Hostile peers fill no disk: of each kind of line, one is logged in 10 s."""

import time

import pytest

from scope_wire.refused.rate import Rate


def test_one_line_of_each_kind_in_10_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line of a kind is logged, then the first after 10 s, which says how many there were since."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limited = Rate()
    assert [limited.due("role") for _ in range(5)] == [1, 0, 0, 0, 0]
    assert limited.due("expired") == 1
    now = 9.9
    assert limited.due("role") == 0
    now = 10.1
    assert [limited.due("role"), limited.due("role"), limited.due("expired")] == [6, 0, 1]
