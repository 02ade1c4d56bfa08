"""The open runs and the last position of each of their streams, from the spool's records."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scope_proto.scope.v1 import spool_pb2
from scope_proto.scope.v1.record_pb2 import Accounts, Batch, Gap, Record


class StreamPosition(NamedTuple):
    """The last position of a run's stream.

    Attributes:
        sequence: the last sequence number.
        events: rows in all batches up to it.
        last_ktime_ns: CLOCK_BOOTTIME of the last batch.
        boot_to_utc_ns: offset to UTC in the last batch.
    """

    sequence: int
    events: int
    last_ktime_ns: int = 0
    boot_to_utc_ns: int = 0


NOWHERE = StreamPosition(0, 0)


@dataclass(slots=True)
class OpenRun:
    """A run that has started and not ended.

    Attributes:
        accounts: the latest counts, from Accounts or a batch; None: none yet.
        told_in: number of the segment with these counts; 0: a deleted segment.
    """

    run_id: bytes
    task_id: bytes
    streams: dict[str, StreamPosition] = field(default_factory=dict)
    accounts: Accounts | None = None
    told_in: int = 0

    def copy(self) -> "OpenRun":
        """A copy."""
        accounts = None
        if self.accounts is not None:
            accounts = Accounts()
            accounts.CopyFrom(self.accounts)
        return OpenRun(self.run_id, self.task_id, dict(self.streams), accounts, self.told_in)


class OpenRuns:
    """Follows the records of the spool in order. For one thread at a time."""

    def __init__(self) -> None:
        self._runs: dict[bytes, OpenRun] = {}

    def __contains__(self, run_id: bytes) -> bool:
        return run_id in self._runs

    def __iter__(self) -> Iterator[OpenRun]:
        return iter(self._runs.values())

    def get(self, run_id: bytes) -> OpenRun | None:
        """The run, if it is open."""
        return self._runs.get(run_id)

    def position(self, run_id: bytes, stream: str) -> StreamPosition | None:
        """The last position of a stream; None: its run is not open."""
        run = self._runs.get(run_id)
        return run.streams.get(stream, NOWHERE) if run else None

    def apply(self, record: Record, segment: int = 0) -> None:
        """Applies the next record, from the segment with this number. Any record except an end or a Gap opens its
        run."""
        kind = record.WhichOneof("content")
        if kind == "end":
            self._runs.pop(record.run_id, None)
            return
        run = self._runs.get(record.run_id)
        if run is None:
            if kind == "gap":
                return  # the run has ended
            run = self._runs[record.run_id] = OpenRun(record.run_id, record.task_id)
        if kind == "gap":
            _add_gap(run, record.gap)
        elif kind == "accounts":
            _accounts(run).MergeFrom(record.accounts)
            run.told_in = segment
        elif kind == "batch":
            _add_batch(run, record.batch)
            run.told_in = segment

    def open(self, run: OpenRun) -> None:
        """Adds an open run."""
        self._runs[run.run_id] = run

    def snapshot(self) -> dict[bytes, OpenRun]:
        """Copies of all open runs, by run_id."""
        return {run_id: run.copy() for run_id, run in self._runs.items()}

    def checkpoint(self) -> spool_pb2.Checkpoint:
        """All open runs, as the checkpoint of a new segment."""
        checkpoint = spool_pb2.Checkpoint()
        for run in self._runs.values():
            described = checkpoint.runs.add(run_id=run.run_id, task_id=run.task_id, accounts=run.accounts)
            for stream, position in run.streams.items():
                told = described.streams[stream]
                told.sequence, told.events, told.last_ktime_ns, told.boot_to_utc_ns = position
        return checkpoint


def runs_of(checkpoint: spool_pb2.Checkpoint) -> dict[bytes, OpenRun]:
    """The runs in a checkpoint, by run_id."""
    return {described.run_id: _run_of(described) for described in checkpoint.runs}


def _run_of(described: spool_pb2.OpenRun) -> OpenRun:
    streams = {
        stream: StreamPosition(told.sequence, told.events, told.last_ktime_ns, told.boot_to_utc_ns)
        for stream, told in described.streams.items()
    }
    accounts = described.accounts if described.HasField("accounts") else None
    return OpenRun(described.run_id, described.task_id, streams, accounts)


def _accounts(run: OpenRun) -> Accounts:
    if run.accounts is None:
        run.accounts = Accounts()
    return run.accounts


def _add_batch(run: OpenRun, batch: Batch) -> None:
    sequence = batch.sequence
    if sequence > run.streams.get(batch.stream, NOWHERE).sequence:
        events = batch.events_before + batch.event_count
        run.streams[batch.stream] = StreamPosition(sequence, events, batch.last_ktime_ns, batch.boot_to_utc_ns)
    accounts = _accounts(run)
    accounts.streams[batch.stream].CopyFrom(batch.account)
    accounts.ktime_ns, accounts.boot_to_utc_ns = max(accounts.ktime_ns, batch.last_ktime_ns), batch.boot_to_utc_ns


def _add_gap(run: OpenRun, gap: Gap) -> None:
    """Adds batches that were never in the spool: their sequence numbers follow the last one."""
    position = run.streams.get(gap.stream, NOWHERE)
    if not gap.spans or gap.spans[-1].last <= position.sequence:
        return
    for span in gap.spans:
        if span.first == position.sequence + 1:
            events = position.events + span.events
            position = StreamPosition(span.last, events, gap.last_ktime_ns, gap.boot_to_utc_ns)
    run.streams[gap.stream] = position
