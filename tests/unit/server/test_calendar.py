"""Which day it is, and when the server doubts the clock."""

from datetime import date, timedelta

import pytest

from scope_server.store.retention.calendar import Calendar

TODAY = date(2026, 11, 21)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.today = TODAY

    def __call__(self) -> date:
        return self.today


def test_a_day_is_believed_as_it_comes() -> None:
    """Each new day is believed, even after a week without a look and without any rows."""
    clock = Clock()
    days = Calendar(clock)
    for _ in range(20):
        assert days.look(None) == clock.today
        assert days.doubt == ""
        clock.today += timedelta(days=7)


@pytest.mark.parametrize(("newest", "doubted"), [(None, False), (0, False), (7, False), (8, True), (3650, True)])
def test_the_first_day_is_compared_with_the_newest_rows(newest: int | None, doubted: bool) -> None:
    """A first day more than 7 days after the newest rows is doubted; without rows there is nothing to compare with."""
    days = Calendar(Clock())
    days.look(None if newest is None else TODAY - timedelta(days=newest))
    assert bool(days.doubt) == doubted


def test_a_leap_is_doubted_also_when_there_are_new_rows() -> None:
    """A leap of the clock stays in doubt, even if new rows have the new time; the doubt names both dates."""
    clock = Clock()
    days = Calendar(clock)
    days.look(TODAY)
    clock.today = date(2036, 1, 1)
    for _ in range(3):
        days.look(clock.today)
        assert "from 2026-11-21 to 2036-01-01" in days.doubt


def test_a_clock_that_was_set_right_is_believed() -> None:
    """When the clock is right again, the doubt ends at the next look."""
    clock = Clock()
    days = Calendar(clock)
    clock.today = date(2036, 1, 1)
    days.look(TODAY)
    clock.today = TODAY
    days.look(TODAY)
    assert days.doubt == ""


def test_the_doubt_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doubt ends after 24 hours of the monotonic clock, which nobody sets."""
    now = [1000.0]
    monkeypatch.setattr("scope_server.store.retention.calendar.time.monotonic", lambda: now[0])
    days = Calendar(Clock())
    days.look(TODAY - timedelta(days=100))
    now[0] += 24 * 3600 - 1
    days.look(TODAY)
    assert days.doubt
    now[0] += 2
    days.look(TODAY)
    assert days.doubt == ""
