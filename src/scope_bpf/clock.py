"""The clock of events and the clock of people."""

import time


def boot_to_utc_ns() -> int:
    """What to add to a CLOCK_BOOTTIME time for nanoseconds since 1970 UTC, as of now."""
    spans = []
    for _ in range(5):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        utc = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        spans.append((after - before, utc - (before + after) // 2))
    return min(spans)[1]
