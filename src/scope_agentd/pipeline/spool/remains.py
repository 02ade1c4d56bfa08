"""What must be kept or reported when a segment is dropped."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scope_agentd.pipeline.spool.entries import Entry, entries
from scope_agentd.pipeline.spool.gaps import OpenGap, OpenGaps
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
        gaps: open Gaps by offset; they are written again with all that was added to them.
        losses: dropped batches and missing sequence numbers.
        batches: number of dropped batches.
        unended: runs whose end record is damaged.
    """

    moved: list[Record] = field(default_factory=list)
    gaps: dict[int, OpenGap] = field(default_factory=dict)
    losses: Losses = field(default_factory=Losses)
    batches: int = 0
    unended: dict[bytes, OpenRun] = field(default_factory=dict)


def remains_of(
    segment: Segment, data: bytes, *, behind: dict[bytes, OpenRun] | None, runs: OpenRuns, gaps: OpenGaps
) -> Remains:
    """The remains of a segment with this data.

    Args:
        segment: its settled records are left out.
        data: the segment's bytes.
        behind: the runs that were open at the start of the next segment; None: no next segment, or unknown.
        runs: the runs that are open now.
        gaps: open Gaps.
    """
    remains, timeline = Remains(), Timeline()
    timeline.enter(segment.number, follows=False)
    books: set[bytes] = set()
    for part in entries(data):
        timeline.meet(part)
        if not isinstance(part, Entry) or segment.is_settled(part.offset):
            continue
        gap = gaps.at(segment, part.offset)
        if gap is not None:
            remains.gaps[part.offset] = gap
        elif part.record.HasField("accounts"):
            books.add(part.record.run_id)
        elif part.record.HasField("batch"):
            remains.losses.add_batch(part.record, FULL, segment.may_be_sent(part.offset))
            remains.batches += 1
        else:
            remains.moved.append(part.record)
    if behind is not None:
        timeline.meet_checkpoint(behind)
    for run in runs:
        if run.run_id in books and run.told_in <= segment.number and run.accounts is not None:
            remains.moved.append(Record(run_id=run.run_id, task_id=run.task_id, accounts=run.accounts))
    for hole, span in untold(timeline.holes, segment.told):
        add_hole(remains.losses, hole, span)
    remains.unended = timeline.unended
    return remains


def untold(holes: Iterable[Hole], told: Told) -> Iterator[tuple[Hole, Span]]:
    """The parts of holes that were not reported before."""
    for hole in holes:
        for part in told.remaining(hole.run_id, hole.stream, hole.span):
            yield hole, part


def add_hole(losses: Losses, hole: Hole, span: Span) -> None:
    """Adds a part of a hole to the losses."""
    losses.of(Key(hole.run_id, hole.stream, DAMAGED), hole.task_id).add(span, hole.times, apart=True)
