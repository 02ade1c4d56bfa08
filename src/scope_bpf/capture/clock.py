"""The clock of events and the clock of people."""

import time


def boot_ns() -> int:
    """CLOCK_BOOTTIME, in which events have their times."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_to_utc_ns() -> int:
    """What to add to a CLOCK_BOOTTIME time for nanoseconds since 1970 UTC, as of now: a whole number of microseconds.

    So a time in whole microseconds and the CLOCK_BOOTTIME time beside it make one that is exact to the nanosecond.
    """
    spans = []
    for _ in range(5):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        utc = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        spans.append((after - before, utc - (before + after) // 2))
    return min(spans)[1] // 1000 * 1000
