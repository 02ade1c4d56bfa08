"""What is handed to a writer, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum

import pyarrow as pa

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected
from scope_server.machine import Machine

INGEST = "ingest"  # the place where the server loses; it alone counts there
SPOOL = "spool"  # the place of gaps; an agent's accounts tell of all others


@dataclass(frozen=True)
class Decoded:
    """Rows of one batch, at least one, checked, with the columns of the catalogue.

    Attributes:
        first_ns, last_ns: of the rows, in nanoseconds since 1970 UTC.
        days: UTC days that have rows.
        boot_to_utc_ns: added to a row's ktime_ns it gives the row's time.
        redated: the machine's own clock was implausible, the server's was taken.
    """

    rows: pa.Table
    first_ns: int
    last_ns: int
    days: tuple[date, ...]
    boot_to_utc_ns: int
    redated: bool


@dataclass(frozen=True)
class ProcessFacts:
    """What an agent knows of a process; None for what it does not."""

    pid: int
    start_ns: int
    parent_pid: int | None
    exe: str | None
    cmdline: tuple[str, ...] | None
    cgroup: str | None
    container: str | None


@dataclass(frozen=True)
class Batch:
    """A sequence of a stream.

    Attributes:
        events: as the agent announced; so many are stored, or lost if the delivery is rejected.
        first_ns, last_ns: when they were, in nanoseconds since 1970 UTC.
        as_of_ns: when `processes` were described, CLOCK_BOOTTIME.
        rows: None if there are none, or if the delivery is rejected.
    """

    stream: str
    probe: str
    sequence: int
    events: int
    first_ns: int
    last_ns: int
    rows: Decoded | None = None
    processes: tuple[ProcessFacts, ...] = ()
    as_of_ns: int = 0


@dataclass(frozen=True)
class Span:
    """Sequences first to last and how many events they had."""

    first: int
    last: int
    events: int


@dataclass(frozen=True)
class Gap:
    """Sequences that the agent gave up; times in nanoseconds since 1970 UTC."""

    stream: str
    reason: str
    spans: tuple[Span, ...]
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Start:
    """How a run began; `definition` is a scope.v1.Definition as JSON."""

    probe: str
    definition: str
    origin: str
    started_ns: int
    attach_point: str


@dataclass(frozen=True)
class End:
    """How a run ended; `end` as in `store.runs`, or None for a reason that this server does not know."""

    state: str
    end: str | None
    error: str
    ended_ns: int
    last_sequences: Mapping[str, int]


@dataclass(frozen=True)
class Loss:
    """A cumulative count of events that were lost before they had a sequence."""

    place: str
    reason: str
    count: int


@dataclass(frozen=True)
class Account:
    """The books of a stream as its agent tells them; `time_ns` since 1970 UTC.

    Attributes:
        incomplete: of the events that are there: without a part, such as a stack.
    """

    stream: str
    emitted: int
    incomplete: int
    lost: tuple[Loss, ...]
    time_ns: int


@dataclass(frozen=True)
class Delivery:
    """One record as it was delivered, perhaps not for the first time.

    Attributes:
        run_id, task_id: UUIDs in lower case.
        content: None if there are only accounts, or if the record is rejected and not one batch's.
        rejected: why it can never be stored.
    """

    machine: Machine
    run_id: str
    task_id: str
    record: Record
    content: Batch | Gap | Start | End | None = None
    accounts: tuple[Account, ...] = ()
    rejected: Rejected | None = None


class Verdict(Enum):
    """How a delivery ended."""

    STORED = "stored"  # settled, now or by an earlier delivery
    LATER = "later"  # not now; it may be delivered again
    REFUSED = "refused"  # never


@dataclass(frozen=True)
class Outcome:
    """The answer to a delivery; the reason is for people, the code for counters."""

    verdict: Verdict
    reason: str = ""
    code: str = ""


STORED = Outcome(Verdict.STORED)
