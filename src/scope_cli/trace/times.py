"""This machine's clock of people beside that of events."""

import time

import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.capture.clock import boot_to_utc_ns
from scope_views.times import TIME, rfc3339

_OFFSET_S = 1.0  # so long an offset between the clocks is good


class WallClock:
    """Tells the UTC time of events from their time since boot."""

    def __init__(self) -> None:
        self._offset_ns, self._until = 0, 0.0

    def times(self, batch: pa.RecordBatch) -> pa.Array:
        """The time of each row, of `TIME`'s type, from its `ktime_ns`."""
        now = time.monotonic()
        if now >= self._until:
            self._offset_ns, self._until = boot_to_utc_ns(), now + _OFFSET_S
        return pc.add(batch["ktime_ns"].cast(pa.int64()), self._offset_ns).cast(TIME.type)


def now_rfc3339() -> str:
    """The time now, as `rfc3339` writes it."""
    text: str = rfc3339(pa.array([time.time_ns()], TIME.type))[0].as_py()
    return text
