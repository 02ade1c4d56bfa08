"""The clock of events, and UTC."""

import time


def boot_ns() -> int:
    """The current CLOCK_BOOTTIME, the clock of events, in ns."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_to_utc_ns() -> int:
    """The number to add to a CLOCK_BOOTTIME to get nanoseconds since 1970 UTC, now: a whole number of microseconds.

    So a UTC time in whole microseconds, together with its CLOCK_BOOTTIME, gives a time exact to the nanosecond.
    """
    spans = []
    for _ in range(5):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        utc = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        spans.append((after - before, utc - (before + after) // 2))
    return min(spans)[1] // 1000 * 1000
