"""Finds missing sequence numbers in one or several consecutive segments.

A stream's sequence numbers are written without holes. So if the next batch, the run's end or the next segment's
checkpoint has a later position than the records read so far, the records between were damaged.

Damaged starts, Gaps and carried records are not found this way, since they have no sequence numbers; only a log message
reports them. Several adjacent damaged batches become one span, unless their numbers can still be read. A server that
has stored some of them refuses such a span.
"""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from scope_agentd.pipeline.books import unnumbered
from scope_agentd.pipeline.spool.entries import Entry, Opening
from scope_agentd.pipeline.spool.layout import Damage
from scope_agentd.pipeline.spool.losses import Times, spans_of
from scope_agentd.pipeline.spool.runs import NOWHERE, OpenRun, OpenRuns, StreamPosition
from scope_agentd.pipeline.spool.spans import Span, Told
from scope_proto.scope.v1.record_pb2 import Gap, Record, RunEnd


class Hole(NamedTuple):
    """Missing sequence numbers of a run's stream."""

    run_id: bytes
    task_id: bytes
    stream: str
    span: Span
    times: Times


class Timeline:
    """Follows segments in order.

    Attributes:
        runs: the runs that are open at this point.
        unended: runs that ended, but whose end record was damaged.
        holes: the holes found.
    """

    def __init__(self) -> None:
        self.runs = OpenRuns()
        self.unended: dict[bytes, OpenRun] = {}
        self.holes: list[Hole] = []
        self._segment = 0
        self._sure = False  # whether `runs` is complete at this point
        self._met: set[tuple[bytes, str]] = set()  # streams, and runs (stream empty), met while it is not
        self._hints: dict[tuple[bytes, str, int], tuple[int, int]] = {}
        self._told = Told()

    def enter(self, segment: int, follows: bool) -> None:
        """Starts a segment; `follows`: it directly continues the previous one."""
        self._segment = segment
        if not follows:
            self._sure = False
            self._met.clear()

    def meet(self, part: Entry | Opening | Damage) -> None:
        """Applies the next part of the segment."""
        if isinstance(part, Opening):
            self.meet_checkpoint(part.runs)
        elif isinstance(part, Damage):
            self._meet_damage(part)
        elif not part.carried:
            self._meet_record(part.record)
        elif part.record.HasField("end"):
            self.unended.pop(part.record.run_id, None)

    def meet_checkpoint(self, runs: dict[bytes, OpenRun]) -> None:
        """Compares with the open runs and positions in a checkpoint."""
        for run in self.runs:
            if run.run_id not in runs and (self._sure or any(run.run_id == met for met, _ in self._met)):
                self.unended[run.run_id] = run
        for run in runs.values():
            before = self.runs.get(run.run_id)
            if before is not None:
                run.told_in = before.told_in
            for stream, position in run.streams.items():
                self._reach(run.run_id, run.task_id, stream, position)
        self.runs = OpenRuns()
        for run in runs.values():
            self.runs.open(run)
        self._sure = True
        self._met.clear()

    def _meet_record(self, record: Record) -> None:
        kind = record.WhichOneof("content")
        if kind == "start":
            self._met.add((record.run_id, ""))
        if kind == "batch":
            batch = record.batch
            here = StreamPosition(batch.sequence - 1, batch.events_before, batch.first_ktime_ns, batch.boot_to_utc_ns)
            self._reach(record.run_id, record.task_id, batch.stream, here)
            self._met.add((record.run_id, batch.stream))
        elif kind == "end":
            self._meet_end(record, record.end)
        elif kind == "gap":
            self._meet_gap(record, record.gap)
        self.runs.apply(record, self._segment)

    def _meet_end(self, record: Record, end: RunEnd) -> None:
        for stream, last in end.last_sequences.items():
            account = end.accounts.streams[stream]
            events = account.emitted - unnumbered(account)
            here = StreamPosition(last, events, end.accounts.ktime_ns, end.accounts.boot_to_utc_ns)
            self._reach(record.run_id, record.task_id, stream, here)
        self.unended.pop(record.run_id, None)

    def _meet_gap(self, record: Record, gap: Gap) -> None:
        position = self.runs.position(record.run_id, gap.stream)
        for span in spans_of(gap):
            if position is not None and span.last > position.sequence:
                self._told.add(record.run_id, gap.stream, span)

    def _meet_damage(self, damage: Damage) -> None:
        # Most of a batch is columns. If only these are damaged, its numbers can still be read. They say how many events
        # each of several damaged records has, if they fit exactly between the valid records.
        if damage.payload is None:
            return
        try:
            record = Record.FromString(damage.payload)
        except DecodeError:
            return
        batch = record.batch
        self._hints[record.run_id, batch.stream, batch.sequence] = (batch.events_before, batch.event_count)

    def _reach(self, run_id: bytes, task_id: bytes, stream: str, here: StreamPosition) -> None:
        before = self._before(run_id, stream)
        if before is None or here.sequence <= before.sequence:
            return
        missing = Span(before.sequence + 1, here.sequence, max(0, here.events - before.events))
        times = Times(before.last_ktime_ns or here.last_ktime_ns, here.last_ktime_ns, here.boot_to_utc_ns)
        for span in self._divided(run_id, stream, missing, before.events):
            for part in self._told.remaining(run_id, stream, span):
                self.holes.append(Hole(run_id, task_id, stream, part, times))

    def _before(self, run_id: bytes, stream: str) -> StreamPosition | None:
        if not self._sure and not self._met & {(run_id, ""), (run_id, stream)}:
            return None
        return self.runs.position(run_id, stream) or NOWHERE

    def _divided(self, run_id: bytes, stream: str, missing: Span, events: int) -> list[Span]:
        spans, sequence, left = [], missing.first, missing.events
        while sequence <= missing.last and (run_id, stream, sequence) in self._hints:
            before, count = self._hints[run_id, stream, sequence]
            if before != events or count > left:
                break
            spans.append(Span(sequence, sequence, count))
            sequence, events, left = sequence + 1, events + count, left - count
        if sequence <= missing.last:
            return [*spans, Span(sequence, missing.last, left)]
        return spans if left == 0 else [missing]
