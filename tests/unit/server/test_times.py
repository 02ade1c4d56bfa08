"""Which clock gives the times of a batch."""

import pytest

from scope_server.errors import Rejected
from scope_server.ingest.times import Clock
from scope_server.machine import Machine

DAY = 24 * 3600 * 10**9
NOW = 1_790_000_000 * 10**9
CLOCK = Clock(NOW, keep_days=30)
UP = 3 * DAY  # the machine's CLOCK_BOOTTIME at NOW
MACHINE = Machine(1, "m", "i", NOW - UP)


@pytest.mark.parametrize("ahead", [-29 * DAY, -DAY, 0, 3600 * 10**9, DAY])
def test_a_plausible_clock_is_believed(ahead: int) -> None:
    """A machine's clock is used if it is at most a day ahead, and not so far behind that its rows would be dropped."""
    assert CLOCK.offset(UP, UP, NOW - UP + ahead, MACHINE) == NOW - UP + ahead


@pytest.mark.parametrize("ahead", [-NOW, -31 * DAY, DAY + 1000, 400 * DAY, 1 << 62, -(1 << 62)])
def test_an_implausible_one_is_replaced(ahead: int) -> None:
    """An implausible offset is replaced by the server's own offset for the machine."""
    assert CLOCK.offset(UP, UP, NOW - UP + ahead, MACHINE) == MACHINE.boot_to_utc_ns


def test_all_of_a_batch_has_one_clock() -> None:
    """If the first or the last time of a batch is implausible, the whole batch gets the server's offset."""
    assert CLOCK.offset(0, UP, NOW - UP - 28 * DAY, MACHINE) == MACHINE.boot_to_utc_ns
    assert CLOCK.offset(0, UP, NOW - UP, MACHINE) == NOW - UP


def test_an_offset_is_whole_microseconds() -> None:
    """Offsets are whole microseconds, so that the last three digits of a row's time are those of its ktime."""
    assert CLOCK.offset(UP, UP, NOW - UP + 999, MACHINE) == NOW - UP


@pytest.mark.parametrize(("ktime", "code"), [(0, "too_old"), (1 << 62, "bad_time"), (UP + 2 * DAY, "bad_time")])
def test_what_no_clock_explains_is_refused(ktime: int, code: str) -> None:
    """Times that are too old and impossible times have different codes; in the books both are dated now."""
    booted_long_ago = Machine(1, "m", "i", NOW - 90 * DAY if code == "too_old" else MACHINE.boot_to_utc_ns)
    with pytest.raises(Rejected) as rejected:
        CLOCK.offset(ktime, ktime, booted_long_ago.boot_to_utc_ns, booted_long_ago)
    assert rejected.value.code == code
    assert CLOCK.moment(ktime, 0, booted_long_ago) == NOW


def test_a_told_time_is_taken_if_it_can_be() -> None:
    """An impossible time, such as 1970, is replaced by now."""
    assert CLOCK.told(NOW - DAY) == NOW - DAY
    assert CLOCK.told(0) == CLOCK.told(1 << 70) == CLOCK.told(-(1 << 70)) == NOW
