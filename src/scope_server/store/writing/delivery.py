"""The input of a writer, and its answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum

import pyarrow as pa

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected
from scope_server.machine import Machine

INGEST = "ingest"  # the place of losses in the server; only the server counts there
SPOOL = "spool"  # the place of gaps; all other places are in an agent's accounts


@dataclass(frozen=True)
class Decoded:
    """Checked rows of a batch, at least one, with those columns of the stream that the agent knows.

    Attributes:
        first_ns, last_ns: times of the first and last row, in nanoseconds since 1970 UTC.
        days: UTC days of the rows.
        boot_to_utc_ns: added to a row's ktime_ns, it gives the row's time.
        redated: the server's clock was used, because the machine's was implausible.
    """

    rows: pa.Table
    first_ns: int
    last_ns: int
    days: tuple[date, ...]
    boot_to_utc_ns: int
    redated: bool


@dataclass(frozen=True)
class ProcessFacts:
    """An agent's description of a process; None for unknown values."""

    pid: int
    start_ns: int
    parent_pid: int | None
    exe: str | None
    cmdline: tuple[str, ...] | None
    cgroup: str | None
    container_id: str | None
    container: str | None
    image: str | None
    pod: str | None
    namespace: str | None
    unit: str | None


@dataclass(frozen=True)
class Batch:
    """A batch of a stream.

    Attributes:
        events: number of events declared by the agent; they are stored, or lost if the delivery is rejected.
        first_ns, last_ns: times of the events, in nanoseconds since 1970 UTC.
        as_of_ns: when `processes` were described, CLOCK_BOOTTIME.
        rows: None if there are no rows, or if the delivery is rejected.
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

    @property
    def redated(self) -> bool:
        """Whether the rows have times of the server's clock."""
        return self.rows is not None and self.rows.redated


@dataclass(frozen=True)
class Span:
    """Sequence numbers first to last, and their number of events."""

    first: int
    last: int
    events: int


@dataclass(frozen=True)
class Gap:
    """Sequence numbers that the agent dropped; times in nanoseconds since 1970 UTC."""

    stream: str
    reason: str
    spans: tuple[Span, ...]
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Start:
    """The start of a run; `definition` is a scope.v1.Definition as JSON."""

    probe: str
    definition: str
    origin: str
    started_ns: int
    attach_point: str
    started_by: str | None


@dataclass(frozen=True)
class End:
    """The end of a run; `end` as in `store.runs`, None for an unknown reason.

    Here and in `Start`, a person who did it through AgentControl has a name.
    """

    state: str
    end: str | None
    error: str
    ended_ns: int
    last_sequences: Mapping[str, int]
    stopped_by: str | None


@dataclass(frozen=True)
class Loss:
    """A cumulative count of events that were lost before they had a sequence number."""

    place: str
    reason: str
    count: int


@dataclass(frozen=True)
class Account:
    """The event counts of a stream as reported by its agent; `time_ns` since 1970 UTC.

    Attributes:
        incomplete: events without a part, such as the stack.
        left_out: rows that the task's filter did not take.
    """

    stream: str
    emitted: int
    incomplete: int
    left_out: int
    lost: tuple[Loss, ...]
    time_ns: int

    def with_lost(self, place: str, reason: str, count: int) -> "Account":
        """The account with more events, emitted and lost."""
        same = sum(loss.count for loss in self.lost if (loss.place, loss.reason) == (place, reason))
        others = tuple(loss for loss in self.lost if (loss.place, loss.reason) != (place, reason))
        return replace(self, emitted=self.emitted + count, lost=(*others, Loss(place, reason, same + count)))


@dataclass(frozen=True)
class Delivery:
    """A delivered record; it may have been delivered before.

    Attributes:
        run_id, task_id: UUIDs in lower case.
        content: None if there are only accounts, or if the record is rejected and not a batch.
        rejected: why the record can never be stored.
    """

    machine: Machine
    run_id: str
    task_id: str
    record: Record
    content: Batch | Gap | Start | End | None = None
    accounts: tuple[Account, ...] = ()
    rejected: Rejected | None = None


class Verdict(Enum):
    """The result of a delivery."""

    STORED = "stored"  # stored, now or by an earlier delivery
    LATER = "later"  # not possible now; deliver it again
    REFUSED = "refused"  # never


@dataclass(frozen=True)
class Outcome:
    """The answer to a delivery: the reason is for people, the code for counters."""

    verdict: Verdict
    reason: str = ""
    code: str = ""


STORED = Outcome(Verdict.STORED)
