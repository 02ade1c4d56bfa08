"""What is handed to a writer, and what it answers."""

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from scope_server.errors import Rejected


@dataclass(frozen=True)
class Decoded:
    """Rows of one batch, checked, with the columns of the catalogue.

    Attributes:
        first_ns, last_ns: of the rows, in nanoseconds since 1970 UTC; both 0 if there are none.
    """

    rows: pa.Table
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Loss:
    """A cumulative count of lost events of one stream of a task."""

    place: str
    reason: str
    count: int


@dataclass(frozen=True)
class Delivery:
    """One batch as it was delivered, perhaps not for the first time.

    Attributes:
        machine: its key.
        task_id: a UUID in lower case.
        event_count: as the agent announced it; so many are stored, or lost if it is rejected.
        emitted: as of this batch, or None if no account came with it.
        content: the rows, or why they can never be stored.
    """

    machine: int
    task_id: str
    sequence: int
    stream: str
    probe: str
    event_count: int
    boot_to_utc_ns: int
    emitted: int | None
    losses: tuple[Loss, ...]
    content: Decoded | Rejected


class Verdict(Enum):
    """How a delivery ended."""

    STORED = "stored"
    REJECTED = "rejected"
    RETRY = "retry"


@dataclass(frozen=True)
class Outcome:
    """The answer to a delivery; the reason is for people."""

    verdict: Verdict
    reason: str = ""
