"""What must be kept or reported when a segment is dropped."""

from dataclasses import dataclass, field

from scope_agentd.pipeline.spool.entries import Entry, entries
from scope_agentd.pipeline.spool.gaps import OpenGaps
from scope_agentd.pipeline.spool.losses import DAMAGED, FULL, Key, Losses
from scope_agentd.pipeline.spool.runs import OpenRun, OpenRuns
from scope_agentd.pipeline.spool.segment import Segment
from scope_agentd.pipeline.spool.spans import Span, Told
from scope_agentd.pipeline.spool.timeline import Hole, Timeline
from scope_proto.scope.v1.record_pb2 import Record


@dataclass
class Remains:
    """The remains of one segment.

    Attributes:
        moved: records to write again: starts, ends, Gaps, and the newest Accounts of each run.
        gaps: losses in Gaps to which more may be added.
        losses: dropped batches and missing sequence numbers.
        batches: number of dropped batches.
        unended: runs whose end record is damaged.
    """

    moved: list[Record] = field(default_factory=list)
    gaps: Losses = field(default_factory=Losses)
    losses: Losses = field(default_factory=Losses)
    batches: int = 0
    unended: dict[bytes, OpenRun] = field(default_factory=dict)


def remains_of(
    segment: Segment, data: bytes, *, behind: dict[bytes, OpenRun] | None, runs: OpenRuns, gaps: OpenGaps, told: Told
) -> Remains:
    """The remains of a segment with this data.

    Args:
        segment: its settled records are left out.
        data: the segment's bytes.
        behind: the runs that were open at the start of the next segment; None: no next segment, or unknown.
        runs: the runs that are open now.
        gaps: open Gaps; those of this segment are removed.
        told: batches that a Gap already reports.
    """
    remains, timeline = Remains(), Timeline()
    timeline.enter(segment.number, follows=False)
    books: set[bytes] = set()
    for part in entries(data):
        timeline.meet(part)
        if not isinstance(part, Entry) or segment.is_settled(part.offset):
            continue
        gap = gaps.close(segment, part.offset)
        if gap is not None:
            remains.gaps.absorb(gap.lost)
        elif part.record.HasField("accounts"):
            books.add(part.record.run_id)
        elif part.record.HasField("batch"):
            _lose(remains, part.record, segment.may_be_sent(part.offset), told)
        else:
            remains.moved.append(part.record)
    if behind is not None:
        timeline.meet_checkpoint(behind)
    for run in runs:
        if run.run_id in books and run.told_in <= segment.number and run.accounts is not None:
            remains.moved.append(Record(run_id=run.run_id, task_id=run.task_id, accounts=run.accounts))
    add_holes(remains.losses, timeline.holes, segment.told)
    remains.unended = timeline.unended
    return remains


def _lose(remains: Remains, record: Record, sent: bool, told: Told) -> None:
    sequence = record.batch.sequence
    if told.remaining(record.run_id, record.batch.stream, Span(sequence, sequence, 0)):
        remains.losses.add_batch(record, FULL, sent)
        remains.batches += 1


def add_holes(losses: Losses, holes: list[Hole], told: Told) -> None:
    """Adds missing sequence numbers to the losses, unless they were reported before; marks them as reported."""
    for run_id, task_id, stream, span, times in holes:
        for part in told.remaining(run_id, stream, span):
            losses.of(Key(run_id, stream, DAMAGED), task_id).add(part, times, sent=True)
        told.add(run_id, stream, span)
