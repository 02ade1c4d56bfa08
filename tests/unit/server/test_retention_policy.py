"""Which day is dropped next: a table of cases."""

from datetime import date, timedelta

import pytest

from scope_server.store.retention.policy import Limits, Reason, next_to_go

TODAY = date(2026, 11, 21)


def days(*ago: int) -> dict[date, int]:
    return {TODAY - timedelta(days=each): 100 for each in ago}


@pytest.mark.parametrize(
    ("ago", "stored", "limits", "goes"),
    [
        ((), 10**9, Limits(30, 1, True), None),
        ((0, 1, 30), 300, Limits(30, 300, False), None),
        ((0, 1, 31), 300, Limits(30, 300, False), (31, Reason.AGE)),
        ((0, 31, 45), 300, Limits(30, 300, False), (45, Reason.AGE)),
        ((0, 1, 2), 301, Limits(30, 300, False), (2, Reason.LIMIT)),
        ((0, 1, 31), 301, Limits(30, 300, False), (31, Reason.AGE)),
        ((0, 1, 2), 1, Limits(30, 300, True), (2, Reason.FLOOR)),
        ((0,), 10**9, Limits(30, 300, True), None),
        ((0, -1), 10**9, Limits(1, 300, True), None),  # a day from a clock that is ahead
    ],
)
def test_the_oldest_day_goes(
    ago: tuple[int, ...], stored: int, limits: Limits, goes: tuple[int, Reason] | None
) -> None:
    """The oldest day is dropped for its age, for a full disk or for the storage limit; today is never dropped."""
    found = next_to_go(stored, days(*ago), TODAY, limits)
    assert found == (goes and (TODAY - timedelta(days=goes[0]), goes[1]))
