"""Reads the spool that an earlier agent left."""

import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from scope_agentd.pipeline.spool.entries import Entry, Opening, entries
from scope_agentd.pipeline.spool.home import Home
from scope_agentd.pipeline.spool.layout import FIRST_FRAME, VERSION, cut_segment, read_segment, version_of
from scope_agentd.pipeline.spool.losses import FULL, spans_of
from scope_agentd.pipeline.spool.remains import untold
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
    """The contents of the directory.

    Attributes:
        segments: readable segments, in order.
        last_number: highest number of all segments, including unreadable ones.
        runs: runs that were open at the end.
        holes: missing sequence numbers that no Gap reports.
        full: sequence numbers that a Gap reports as dropped, because the spool was full.
        damaged: number of damaged places.
    """

    segments: list[Segment] = field(default_factory=list)
    last_number: int = 0
    runs: OpenRuns = field(default_factory=OpenRuns)
    holes: list[Hole] = field(default_factory=list)
    full: Told = field(default_factory=Told)
    damaged: int = 0


def find(home: Home) -> Found:
    """Reads all segments, one at a time. Cuts an incomplete frame off the end of the last one.

    Raises:
        SpoolUnusable: the directory cannot be read.
    """
    found, timeline, gaps = Found(), Timeline(), list[_Gap]()
    before: int | None = None  # the segment that the next one continues
    files = home.segments()
    for number, file in files:
        found.last_number = number
        data = _readable(file)
        if data is None:
            before = None
            continue
        timeline.enter(number, follows=before == number - 1)
        segment = _scanned(number, file, data, timeline, gaps)
        found.damaged += len(segment.bad)
        if number == files[-1][0]:
            _cut_tail(segment)
            if segment.size <= FIRST_FRAME:  # nothing is in it yet, not even which runs are open
                with contextlib.suppress(OSError):
                    file.unlink()
                    found.last_number = number - 1  # its successor follows the one before
                break
        found.segments.append(segment)
        before = None if segment.size == segment.start else number  # emptied: its records are settled
    told = _settle_gaps(found, gaps)
    found.holes = [hole._replace(span=part) for hole, part in untold(timeline.holes, told)]
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
            "a segment of the spool has a format that this version does not know; the file is ignored",
            extra={"file": str(file), "version": version},
        )
        return None
    return data


def _scanned(number: int, file: Path, data: bytes, timeline: Timeline, gaps: list[_Gap]) -> Segment:
    segment = Segment(number, file, data[:FIRST_FRAME].ljust(FIRST_FRAME), earlier=True)
    for part in entries(data):
        timeline.meet(part)
        if isinstance(part, Opening):
            segment = Segment(number, file, data[: part.end], earlier=True)
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
        cut_segment(segment.file, torn)
    except OSError as error:
        log.error("cannot cut a segment", extra={"file": str(segment.file), "reason": error.strerror})
        return
    del segment.bad[torn]
    segment.size = torn


def _settle_gaps(found: Found, gaps: list[_Gap]) -> Told:
    """A Gap that was extended before it was read is stored twice: only the later one is sent. Returns all that Gaps
    report."""
    told = Told()
    for gap in reversed(gaps):
        if told.has(gap.run_id, gap.stream, gap.spans):
            gap.segment.supersede(gap.offset)
            continue
        for span in gap.spans:
            told.add(gap.run_id, gap.stream, span)
            if gap.reason == FULL:
                found.full.add(gap.run_id, gap.stream, span)
    return told
