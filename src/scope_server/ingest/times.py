"""Times of events: by the machine's clock if plausible, otherwise by the server's clock."""

import time
from dataclasses import dataclass

from scope_server.errors import Rejected
from scope_server.machine import Machine

_DAY_NS = 24 * 3600 * 10**9
_AHEAD_NS = _DAY_NS


@dataclass(frozen=True)
class Clock:
    """The range of plausible times: not older than rows are kept, and at most a day in the future."""

    now_ns: int
    keep_days: int

    @classmethod
    def now(cls, keep_days: int) -> "Clock":
        """The range at this time."""
        return cls(time.time_ns(), keep_days)

    def offset(self, first_ktime_ns: int, last_ktime_ns: int, boot_to_utc_ns: int, machine: Machine) -> int:
        """The offset from ktimes to UTC: `boot_to_utc_ns` (whole µs), or by the server's clock.

        Raises:
            Rejected: with both, some times are implausible.
        """
        for offset in (boot_to_utc_ns // 1000 * 1000, machine.boot_to_utc_ns):
            if self.plausible(first_ktime_ns + offset) and self.plausible(last_ktime_ns + offset):
                return offset
        first, last = first_ktime_ns + machine.boot_to_utc_ns, last_ktime_ns + machine.boot_to_utc_ns
        if last <= self.now_ns + _AHEAD_NS and 0 <= first < self._earliest_ns:
            raise Rejected("too_old", f"older than {self.keep_days} days; older rows are not kept")
        raise Rejected("bad_time", f"times from {first} to {last} ns since 1970 are implausible")

    def moment(self, ktime_ns: int, boot_to_utc_ns: int, machine: Machine) -> int:
        """A time for event counts, in nanoseconds since 1970; now if the given time is implausible."""
        try:
            return ktime_ns + self.offset(ktime_ns, ktime_ns, boot_to_utc_ns, machine)
        except Rejected:
            return self.now_ns

    def told(self, utc_ns: int) -> int:
        """A machine's own time, or now if it is implausible."""
        return utc_ns if self.plausible(utc_ns) else self.now_ns

    def plausible(self, utc_ns: int) -> bool:
        """Whether rows may have this time."""
        return self._earliest_ns <= utc_ns <= self.now_ns + _AHEAD_NS

    @property
    def _earliest_ns(self) -> int:
        return self.now_ns - self.keep_days * _DAY_NS
