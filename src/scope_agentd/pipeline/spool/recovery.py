"""What an earlier life of the agent left in the spool's directory."""

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from scope_agentd.pipeline.spool.entries import Entry, Opening, entries
from scope_agentd.pipeline.spool.home import Home
from scope_agentd.pipeline.spool.layout import FIRST_FRAME, VERSION, read_segment, version_of
from scope_agentd.pipeline.spool.losses import FULL, spans_of
from scope_agentd.pipeline.spool.runs import OpenRuns
from scope_agentd.pipeline.spool.segment import Segment
from scope_agentd.pipeline.spool.spans import Span, Told
from scope_agentd.pipeline.spool.timeline import Hole, Timeline

log = logging.getLogger(__name__)


@dataclass
class _Gap:
    segment: Segment
    offset: int
    run_id: bytes
    stream: str
    reason: str
    spans: list[Span]


@dataclass
class Found:
    """What was there.

    Attributes:
        segments: those that can be read, in order.
        last_number: of all segments, those that cannot be read among them.
        runs: that were open at the end.
        holes: sequences that are nowhere and in no Gap.
        told: sequences for which a Gap stands.
        full: those of them that were given up for room.
        damaged: how many places were damaged.
    """

    segments: list[Segment] = field(default_factory=list)
    last_number: int = 0
    runs: OpenRuns = field(default_factory=OpenRuns)
    holes: list[Hole] = field(default_factory=list)
    told: Told = field(default_factory=Told)
    full: Told = field(default_factory=Told)
    damaged: int = 0


def find(home: Home) -> Found:
    """Reads all segments, one at a time in memory. Cuts a torn tail off the last one.

    Raises:
        SpoolUnusable: the directory cannot be read.
    """
    found, timeline, gaps = Found(), Timeline(), list[_Gap]()
    before: int | None = None  # the segment of which the next one is the continuation
    files = home.segments()
    for number, file in files:
        found.last_number = number
        data = _readable(file)
        if data is None:
            before = None
            continue
        timeline.enter(number, follows=before == number - 1)
        segment = _scanned(number, file, data, timeline, gaps)
        found.segments.append(segment)
        found.damaged += len(segment.bad)
        if number == files[-1][0]:
            _cut_tail(segment)
        before = None if segment.size == segment.start else number  # cut: what was in it is settled
    _settle_gaps(found, gaps)
    for hole in timeline.holes:
        for part in found.told.remaining(hole.run_id, hole.stream, hole.span):
            found.holes.append(hole._replace(span=part))
    found.runs = timeline.runs
    for run in timeline.unended.values():
        found.runs.open(run)
    return found


def _readable(file: Path) -> bytes | None:
    try:
        data = read_segment(file)
    except OSError as error:
        log.error("a segment of the spool cannot be read", extra={"file": str(file), "reason": error.strerror})
        return None
    version = version_of(data)
    if version not in (None, VERSION):
        log.error(
            "a segment of the spool has a layout that this version does not know; it is left alone",
            extra={"file": str(file), "version": version},
        )
        return None
    return data


def _scanned(number: int, file: Path, data: bytes, timeline: Timeline, gaps: list[_Gap]) -> Segment:
    segment = Segment(number, file, FIRST_FRAME, earlier=True)
    for part in entries(data):
        timeline.meet(part)
        if isinstance(part, Opening):
            segment = Segment(number, file, part.end, earlier=True)
        elif isinstance(part, Entry):
            segment.add(part.end, part.record.run_id)
            if part.record.HasField("gap"):
                gap = part.record.gap
                run_id = part.record.run_id
                gaps.append(_Gap(segment, part.offset, run_id, gap.stream, gap.reason, spans_of(gap)))
        else:
            segment.bad[part.offset] = part.end
            log.error("a part of the spool is damaged", extra={"file": str(file), "offset": part.offset})
    segment.size = max(FIRST_FRAME, len(data))
    return segment


def _cut_tail(segment: Segment) -> None:
    torn = next((offset for offset, end in segment.bad.items() if end == segment.size), None)
    if torn is None:
        return
    try:
        os.truncate(segment.file, torn)
    except OSError as error:
        log.error("cannot cut a segment", extra={"file": str(segment.file), "reason": error.strerror})
        return
    del segment.bad[torn]
    segment.size = torn


def _settle_gaps(found: Found, gaps: list[_Gap]) -> None:
    """A Gap that was added to before anybody read it lies there twice: the later one is the one to send."""
    for gap in reversed(gaps):
        if found.told.has(gap.run_id, gap.stream, gap.spans):
            gap.segment.supersede(gap.offset)
            continue
        for span in gap.spans:
            found.told.add(gap.run_id, gap.stream, span)
            if gap.reason == FULL:
                found.full.add(gap.run_id, gap.stream, span)
