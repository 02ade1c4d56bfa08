"""Keeps the spool within its limit, also on full or broken disks, and reports the losses."""

import contextlib
import errno
import logging
import time

from scope_agentd.pipeline.spool.entries import Entry, carried, entries, opening_of
from scope_agentd.pipeline.spool.gaps import OpenGaps
from scope_agentd.pipeline.spool.layout import Damage, read_segment
from scope_agentd.pipeline.spool.log import Log
from scope_agentd.pipeline.spool.losses import Losses, Lost
from scope_agentd.pipeline.spool.overflow import Overflow
from scope_agentd.pipeline.spool.recovery import Found
from scope_agentd.pipeline.spool.remains import add_holes, remains_of
from scope_agentd.pipeline.spool.runs import OpenRun
from scope_agentd.pipeline.spool.segment import Segment
from scope_agentd.pipeline.spool.spans import Span, Told
from scope_agentd.pipeline.spool.timeline import Timeline
from scope_proto.scope.v1.record_pb2 import Record

log = logging.getLogger(__name__)

_WARN_EVERY_S = 60.0


class Keeper:
    """For one thread at a time.

    To keep the limit, the oldest segment is dropped. Records that must remain are first written again, into reserved
    space. After a crash between the two steps, the next agent completes the drop. If half of the segments were dropped
    and there is still no space, the spool has only ends of runs and Gaps: then the oldest of these are dropped too.

    Attributes:
        gaps: Gaps to which losses may still be added.
        overflow: records and losses that wait in memory because the disk is full.
        dropped: records dropped to make space, since the start.
        damaged: damaged places found on disk, since the start.
    """

    def __init__(self, log: Log, limit_bytes: int, reserve_bytes: int) -> None:
        self._log, self._limit, self._reserve = log, limit_bytes, reserve_bytes
        self.gaps = OpenGaps()
        self.overflow = Overflow()
        self.dropped = 0
        self.damaged = 0
        self._warned: dict[bool, float] = {}

    def start(self, found: Found) -> None:
        """Continues with the segments that an earlier agent left."""
        self.damaged += found.damaged
        try:
            self._log.roll()
        except OSError as error:
            self._note(error)
        while (oldest := self._log.oldest()) is not None and self._is_half_dropped(oldest, found.full):
            self._drop(oldest, found.told)
        losses, holes = Losses(), Told()
        add_holes(losses, found.holes, holes)
        for segment in list(self._log.segments.values()):
            segment.told = holes
            self._log.release(segment)
        self._tell_all(losses)
        with contextlib.suppress(OSError):
            self._make_room(0)
        self.flush()

    def _is_half_dropped(self, segment: Segment, full: Told) -> bool:
        if segment is self._log.active or not len(full):
            return False
        for part in entries(_data_of(segment)):
            if isinstance(part, Entry) and part.record.HasField("batch"):
                batch = part.record.batch
                sequence = batch.sequence
                if not full.remaining(part.record.run_id, batch.stream, Span(sequence, sequence, 0)):
                    return True
        return False

    # ---- writing

    def put(self, record: Record, data: bytes) -> None:
        """Writes a record, serialized as `data`. If the disk cannot, keeps the record or its loss in memory."""
        self.flush()
        if self.overflow or not self._write(record, data):
            self.overflow.keep(record)

    def _write(self, record: Record, data: bytes) -> bool:
        try:
            return self._append(record, data)
        except OSError as error:
            self._note(error)
            if not self._free(error):
                return False
        self.flush()
        try:
            return not self.overflow and self._append(record, data)
        except OSError:
            return False

    def _append(self, record: Record, data: bytes) -> bool:
        if not self._make_room(self._log.needs(len(data))):
            return False
        self._log.append(data, record)
        return True

    def flush(self) -> None:
        """Writes the overflow in memory, if the disk can write again."""
        if not self.overflow:
            return
        try:
            self._log.restart_if_settled()
            self._flush(self.overflow)
        except OSError:
            return
        if not self.overflow:
            self.overflow.written()
            log.info("the spool's disk can write again")

    def _flush(self, overflow: Overflow) -> None:
        while overflow.first:
            record, moved = overflow.first[0]
            data = record.SerializeToString()
            payload = carried(data) if moved else data
            self._make_room(self._log.needs(len(payload)))
            self._log.append(payload, record, moved)
            overflow.first.popleft()
        for lost in overflow.losses:
            if not self._tell(lost):
                return
            overflow.losses.forget(lost)
        for run_id, record in list(overflow.accounts.items()):
            self._append(record, record.SerializeToString())
            del overflow.accounts[run_id]
        while overflow.ends:
            self._append(overflow.ends[0], overflow.ends[0].SerializeToString())
            overflow.ends.popleft()

    def _note(self, error: OSError) -> None:
        if not self.overflow:
            log.error(
                "the spool's disk cannot write; batches are lost, and counted, until it can",
                extra={"reason": error.strerror},
            )

    # ---- room

    def _make_room(self, need: int) -> bool:
        drops, most = 0, max(1, len(self._log.segments) // 2)
        while self._log.size + need > self._limit - self._reserve:
            oldest = self._log.oldest()
            if oldest is None:
                break
            if oldest is self._log.active:
                if oldest.size == oldest.start:
                    break
                self._log.roll()
            if not oldest.gone:
                self._drop(oldest, Told(), give_up=drops > most)
                drops += 1
        return self._log.size + need <= self._limit

    def _free(self, error: OSError) -> bool:
        # Free space does not help against other errors.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return False
        oldest = self._log.oldest()
        if oldest is not None and oldest is not self._log.active:
            self._drop(oldest, Told())
            return True
        try:
            return self._log.restart_if_settled()
        except OSError:
            return False

    def _drop(self, segment: Segment, told: Told, give_up: bool = False) -> None:
        behind = self._behind(segment)
        data = _data_of(segment)
        remains = remains_of(segment, data, behind=behind, runs=self._log.runs, gaps=self.gaps, told=told)
        self.dropped += remains.batches
        self._reopen(remains.unended)
        self._warn(give_up)
        if give_up:
            self.dropped += len(remains.moved) + len(remains.gaps)
        else:
            for record in remains.moved:
                self._move(record)
            for lost in remains.gaps:
                remains.losses.absorb(lost)
        self._tell_all(remains.losses)
        try:
            self._log.sync()
        except OSError as error:
            self._note(error)
        self._log.remove(segment)

    def _warn(self, give_up: bool) -> None:
        now = time.monotonic()
        if now < self._warned.get(give_up, -_WARN_EVERY_S) + _WARN_EVERY_S:
            return
        self._warned[give_up] = now
        if give_up:
            log.error("the spool is full of ends of runs and Gaps; the oldest are dropped")
        else:
            log.warning(
                "the spool is full; the oldest batches are dropped and counted as lost", extra={"dropped": self.dropped}
            )

    def _move(self, record: Record) -> None:
        try:
            segment, _ = self._log.append(carried(record.SerializeToString()), record, moved=True)
        except OSError:
            self.overflow.keep(record, moved=True)
            return
        run = self._log.runs.get(record.run_id)
        if run is not None and record.HasField("accounts"):
            run.told_in = segment.number

    # ---- losses

    def _tell_all(self, losses: Losses) -> None:
        for lost in losses:
            if not self._tell(lost):
                self.overflow.losses.absorb(lost)

    def _tell(self, lost: Lost) -> bool:
        return self.gaps.tell(lost, self._log, self.overflow)

    def examine(self, segment: Segment) -> None:
        """Reports the losses in a segment that was found damaged."""
        timeline = Timeline()
        timeline.enter(segment.number, follows=False)
        bad, whole = dict[int, int](), list[int]()
        for part in entries(_data_of(segment)):
            timeline.meet(part)
            if isinstance(part, Entry):
                whole.append(part.offset)
            elif isinstance(part, Damage):
                bad[part.offset] = part.end
        behind = self._behind(segment)
        if behind is not None:
            timeline.meet_checkpoint(behind)
        losses = Losses()
        for offset in bad.keys() - segment.bad.keys():
            self.damaged += 1
            log.error("a part of the spool is damaged", extra={"file": str(segment.file), "offset": offset})
            gap = self.gaps.close(segment, offset)
            if gap is not None:
                losses.absorb(gap.lost)
        segment.learn(bad, whole)
        add_holes(losses, timeline.holes, segment.told)
        self._reopen(timeline.unended)
        self._tell_all(losses)
        self._log.release(segment)

    def _behind(self, segment: Segment) -> dict[bytes, OpenRun] | None:
        """The runs that were open at the end of a segment."""
        if segment is self._log.active:
            return self._log.runs.snapshot()
        after = self._log.segments.get(segment.number + 1)
        return opening_of(_data_of(after, after.start)) if after is not None else None

    def _reopen(self, unended: dict[bytes, OpenRun]) -> None:
        # It is unknown how these runs ended; the next agent ends them.
        for run in unended.values():
            if run.run_id not in self._log.runs:
                self._log.runs.open(run)


def _data_of(segment: Segment, size: int | None = None) -> bytes:
    try:
        return read_segment(segment.file, segment.size if size is None else size)
    except OSError as error:
        log.error("a segment of the spool cannot be read", extra={"file": str(segment.file), "reason": error.strerror})
        return b""
