"""When events were: by their machine's clock if that is plausible, else by the server's."""

import time
from dataclasses import dataclass

from scope_server.errors import Rejected
from scope_server.machine import Machine

_DAY_NS = 24 * 3600 * 10**9
_AHEAD_NS = _DAY_NS


@dataclass(frozen=True)
class Clock:
    """What is plausible at a moment: not older than is kept, and not more than a day ahead."""

    now_ns: int
    keep_days: int

    @classmethod
    def now(cls, keep_days: int) -> "Clock":
        """As of now."""
        return cls(time.time_ns(), keep_days)

    def offset(self, first_ktime_ns: int, last_ktime_ns: int, boot_to_utc_ns: int, machine: Machine) -> int:
        """What to add to ktimes: `boot_to_utc_ns` (whole µs), or the server's own reading of the machine's clock.

        Raises:
            Rejected: by neither are all times plausible.
        """
        for offset in (boot_to_utc_ns // 1000 * 1000, machine.boot_to_utc_ns):
            if self.plausible(first_ktime_ns + offset) and self.plausible(last_ktime_ns + offset):
                return offset
        first, last = first_ktime_ns + machine.boot_to_utc_ns, last_ktime_ns + machine.boot_to_utc_ns
        if last <= self.now_ns + _AHEAD_NS and 0 <= first < self._earliest_ns:
            raise Rejected("too_old", f"it is older than {self.keep_days} days, which is all that is kept")
        raise Rejected("bad_time", f"times from {first} to {last} ns since 1970 cannot be")

    def moment(self, ktime_ns: int, boot_to_utc_ns: int, machine: Machine) -> int:
        """A time for the books, in nanoseconds since 1970: now, if it cannot be as it is told."""
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
