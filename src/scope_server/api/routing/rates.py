"""How often a caller may call a route."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A limit of calls.

    Attributes:
        per_minute: calls in the long run.
        burst: calls at once after a pause.
    """

    per_minute: float
    burst: int


READS = Rate(12_000, 2000)
WORK = Rate(1200, 300)  # answers for which many rows are read
CHANGES = Rate(3000, 1000)
OPEN = Rate(1200, 200)  # without a login
