"""Keeps the spool within its limit, also on full or broken disks, and reports the losses."""

import contextlib
import logging
import time
from collections.abc import Sequence

from scope_agentd.pipeline.spool.entries import Entry, carried, entries, opening_of
from scope_agentd.pipeline.spool.gaps import OpenGaps
from scope_agentd.pipeline.spool.layout import Damage, read_segment
from scope_agentd.pipeline.spool.log import Log, Writing
from scope_agentd.pipeline.spool.losses import Losses
from scope_agentd.pipeline.spool.overflow import Overflow
from scope_agentd.pipeline.spool.recovery import Found
from scope_agentd.pipeline.spool.remains import add_hole, remains_of, untold
from scope_agentd.pipeline.spool.runs import OpenRun
from scope_agentd.pipeline.spool.segment import Segment
from scope_agentd.pipeline.spool.spans import Span, Told
from scope_agentd.pipeline.spool.timeline import Timeline
from scope_proto.scope.v1.record_pb2 import Record
from scope_wire.frame import HEADER_BYTES

log = logging.getLogger(__name__)

_WARN_EVERY_S = 60.0


class Keeper:
    """For one thread at a time.

    To keep the limit, and when the disk has little free space left, the oldest segment is dropped. Its Gap, and the
    records that must remain, are first written into reserved space; if that fails, nothing is dropped. After a crash
    between the two steps, the next agent sends the Gap and not the batches. If half of the segments were dropped and
    there is still no space, the spool has only ends of runs and Gaps: then the oldest of these are dropped too.

    On a full disk the newest batches are lost, which only the memory knows. If the agent is killed meanwhile, the
    kernel's counts show them: they were after the last position on disk.

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
        self._warned: dict[str, float] = {}
        self._told_full = False

    def start(self, found: Found) -> None:
        """Continues with the segments that an earlier agent left."""
        self.damaged += found.damaged
        try:
            self._log.roll()
        except OSError as error:
            self._note(error)
        if len(found.full):
            for segment in self._log.segments.values():
                if not _may_be_dropped(segment, found.full):
                    break
        losses, told = Losses(), Told()
        for hole in found.holes:
            add_hole(losses, hole, hole.span)
            told.add(hole.run_id, hole.stream, hole.span)
        for segment in self._log.segments.values():
            segment.told = told
        self._tell(losses)
        for segment in list(self._log.segments.values()):
            self._log.release(segment)
        with contextlib.suppress(OSError):
            self._make_room(0)
        self.flush()

    # ---- writing

    def put(self, record: Record, data: bytes) -> None:
        """Writes a record, serialized as `data`. If the disk cannot, keeps the record or its loss in memory."""
        self.flush()
        if self.overflow or not self._write(record, data):
            self.overflow.keep(record)

    def _write(self, record: Record, data: bytes) -> bool:
        writing = [Writing(data, record)]
        try:
            return self._append(writing)
        except OSError as error:
            self._note(error)
        try:
            return self._log.restart_if_settled() and self._append(writing)
        except OSError:
            return False

    def _append(self, writing: Sequence[Writing]) -> bool:
        size = sum(HEADER_BYTES + len(one.payload) for one in writing)
        if not self._make_room(size):
            return False
        self._log.append(writing)
        return True

    def flush(self) -> None:
        """Writes the overflow in memory, if the disk can write again."""
        overflow = self.overflow
        if not overflow:
            return
        try:
            self._log.restart_if_settled()
            if not self._log.free():
                return
            if not self._append([Writing.of(record) for record in overflow.first]):
                return
            overflow.first.clear()
            self._write_gaps(overflow.losses)
            overflow.losses.clear()
            if not self._append([Writing.of(record) for record in overflow.last()]):
                return
        except OSError:
            return
        overflow.clear()
        if self._told_full:
            self._told_full = False
            log.info("the spool's disk can write again")

    def _note(self, error: OSError) -> None:
        if not self.overflow:
            told = self._warn(
                "the spool's disk cannot write; batches are lost, and counted, until it can", error.strerror
            )
            self._told_full = self._told_full or told

    # ---- room

    def _make_room(self, size: int) -> bool:
        """Makes room for frames of this size; False: they do not fit within the limit.

        Raises:
            OSError: the disk cannot write.
        """
        need = self._log.needs(size)
        drops, most = 0, max(1, len(self._log.segments) // 2)
        while self._log.size + need > self._limit - self._reserve:
            oldest = self._log.oldest()
            if oldest is None:
                break
            if oldest is self._log.newest():
                if oldest.size == oldest.start:
                    break
                self._log.roll()
            if not oldest.gone:
                self._drop(oldest, give_up=drops > most)
                drops += 1
        if self._log.is_full_for(size) and self._log.free() < self._reserve:
            oldest = self._log.oldest()
            if oldest is not None and oldest is not self._log.newest():
                self._drop(oldest)
        return self._log.size + need <= self._limit

    def _drop(self, segment: Segment, give_up: bool = False) -> None:
        """Deletes a segment, after its Gap and the records that must remain were written.

        Raises:
            OSError: these cannot be written; nothing has changed.
        """
        behind = self._behind(segment)
        data = _data_of(segment)
        remains = remains_of(segment, data, behind=behind, runs=self._log.runs, gaps=self.gaps)
        if not give_up:
            for gap in remains.gaps.values():
                remains.losses.of(gap.lost.key, gap.lost.task_id)
        self._write_gaps(remains.losses, [] if give_up else remains.moved)
        for offset in remains.gaps:
            self.gaps.close(segment, offset)
        self.dropped += remains.batches + (len(remains.moved) + len(remains.gaps) if give_up else 0)
        self._reopen(remains.unended)
        if give_up:
            self._warn("the spool is full of ends of runs and Gaps; the oldest are dropped")
        else:
            self._warn("the spool is full; the oldest batches are dropped and counted as lost")
        with contextlib.suppress(OSError):  # only a power cut needs it
            self._log.sync()
        if not segment.gone:
            self._log.remove(segment)

    def _warn(self, message: str, reason: str | None = None) -> bool:
        """Logs an error, unless the same was logged in the last minute."""
        now = time.monotonic()
        if now < self._warned.get(message, -_WARN_EVERY_S) + _WARN_EVERY_S:
            return False
        self._warned[message] = now
        log.error(message, extra={"dropped": self.dropped, "reason": reason})
        return True

    # ---- losses

    def _write_gaps(self, losses: Losses, moved: Sequence[Record] = ()) -> None:
        """Writes the Gaps for losses, and for those that wait in memory, after moved records.

        Raises:
            OSError: the disk cannot write; nothing has changed.
        """
        told = Losses()
        for lost in (*self.overflow.damaged, *losses):
            told.absorb(lost)
        wholes = [self.gaps.extended(lost) for lost in told]
        gaps = [list(whole.records()) for whole in wholes]
        writing = [Writing(carried(record.SerializeToString()), record, moved=True) for record in moved]
        writing += [Writing.of(record) for records in gaps for record in records]
        if not writing:
            return
        places = self._log.append(writing)
        for record, (segment, _) in zip(moved, places, strict=False):
            run = self._log.runs.get(record.run_id)
            if run is not None and record.HasField("accounts"):
                run.told_in = segment.number
        at = len(moved)
        for whole, records in zip(wholes, gaps, strict=True):
            self.gaps.replace(whole, places[at : at + len(records)], self._log)
            at += len(records)
        if self.overflow.damaged:
            self.overflow.damaged.clear()
            self._log.keep_all(False)

    def _tell(self, losses: Losses) -> None:
        try:
            self._write_gaps(losses)
        except OSError:
            for lost in losses:
                self.overflow.damaged.absorb(lost)
            self._log.keep_all(True)  # after a crash, the next agent finds the losses again

    def examine(self, segment: Segment) -> None:
        """Reports the losses in a segment that was found damaged.

        Raises:
            OSError: the segment cannot be read now.
        """
        data = _data_of(segment)
        timeline = Timeline()
        timeline.enter(segment.number, follows=False)
        bad, whole = dict[int, int](), list[int]()
        for part in entries(data):
            timeline.meet(part)
            if isinstance(part, Entry):
                whole.append(part.offset)
            elif isinstance(part, Damage):
                bad[part.offset] = part.end
        if len(data) < segment.size:  # somebody deleted or cut the file
            bad[len(data)] = segment.size
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
        for hole, span in untold(timeline.holes, segment.told):
            add_hole(losses, hole, span)
            segment.told.add(hole.run_id, hole.stream, span)
        self._reopen(timeline.unended)
        self._tell(losses)
        self._log.release(segment)

    def restore(self) -> bool:
        """If somebody has deleted the directory or the newest segment, makes it anew; returns whether it did.

        The newest segment's records are still there, since its file is open. Those of other deleted segments are lost.

        Raises:
            SpoolInUse: another agent has made the directory meanwhile.
        """
        try:
            if not self._log.is_gone():
                return False
            self._log.restore()
        except OSError as error:
            self._warn("the spool's directory was deleted by somebody else and cannot be made anew", error.strerror)
            return False
        log.error("the spool's directory or newest segment was deleted by somebody else, and was made anew")
        for segment in list(self._log.segments.values()):
            if segment.left and not segment.file.exists():
                self.examine(segment)
        return True

    def _behind(self, segment: Segment) -> dict[bytes, OpenRun] | None:
        """The runs that were open at the end of a segment."""
        if segment is self._log.active:
            return self._log.runs.snapshot()
        after = self._log.segments.get(segment.number + 1)
        return opening_of(after.opening) if after is not None else None

    def _reopen(self, unended: dict[bytes, OpenRun]) -> None:
        # It is unknown how these runs ended; the next agent ends them.
        for run in unended.values():
            if run.run_id not in self._log.runs:
                self._log.runs.open(run)


def _may_be_dropped(segment: Segment, full: Told) -> bool:
    """Marks the batches that a Gap reports as dropped, so that they are not sent; False: it has only others.

    They are in the oldest segments after a crash between the Gap and the deletion.
    """
    batches = passed = 0
    with contextlib.suppress(OSError):  # it cannot be sent either
        for part in entries(_data_of(segment)):
            if isinstance(part, Entry) and part.record.HasField("batch"):
                run_id, batch = part.record.run_id, part.record.batch
                batches += 1
                if not full.remaining(run_id, batch.stream, Span(batch.sequence, batch.sequence, 0)):
                    segment.supersede(part.offset)
                    passed += 1
    return passed > 0 or not batches


def _data_of(segment: Segment) -> bytes:
    """The bytes of a segment; fewer if somebody has cut the file, and only its opening if somebody has deleted it.

    Raises:
        OSError: it cannot be opened now, for example because there are no free descriptors.
    """
    try:
        data = read_segment(segment.file, segment.size)
    except FileNotFoundError:
        log.error("a segment of the spool was deleted by somebody else", extra={"file": str(segment.file)})
        return segment.opening
    return data if len(data) > segment.start else segment.opening
