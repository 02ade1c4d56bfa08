"""The segments on disk: appends records, and deletes segments that are no longer needed.

A segment without unsettled records is deleted. If the segment before it still has some, it is cut down to its
checkpoint instead, which shows where the segment before it ends.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scope_agentd.pipeline.spool.entries import opening
from scope_agentd.pipeline.spool.home import Home
from scope_agentd.pipeline.spool.layout import cut_segment, open_segment, segment_header
from scope_agentd.pipeline.spool.runs import OpenRuns
from scope_agentd.pipeline.spool.segment import Segment
from scope_proto.scope.v1.record_pb2 import Record
from scope_wire.frame import framed

log = logging.getLogger(__name__)

_UNLIMITED = 1 << 62  # a file system that does not count its blocks
_PAGE = 4096  # a kill does not interrupt the write of one page


class Writing(NamedTuple):
    """A record to write, as this payload. A `moved` record does not change which runs are open."""

    payload: bytes
    record: Record
    moved: bool = False

    @classmethod
    def of(cls, record: Record) -> "Writing":
        """A new record."""
        return cls(record.SerializeToString(), record)


class Log:
    """For one thread at a time.

    Attributes:
        segments: existing segments by number, in order.
        active: the last segment, which is written to; None: none could be made yet.
        runs: the runs that are open after the last record.
    """

    def __init__(
        self, home: Home, segment_bytes: int, runs: OpenRuns, segments: Iterable[Segment], last_number: int
    ) -> None:
        self._home, self._segment_bytes, self._number = home, segment_bytes, last_number
        self.runs = runs
        self.segments = {segment.number: segment for segment in segments}
        self.active: Segment | None = None
        self._closing: list[int] = []
        self._dirty = self._made = self._keeps_all = False
        self._descriptor = -1
        self._bytes = sum(segment.size for segment in self.segments.values())

    @property
    def size(self) -> int:
        """Size of all segments on disk, in bytes."""
        return self._bytes

    def oldest(self) -> Segment | None:
        """The first segment."""
        return next(iter(self.segments.values()), None)

    def newest(self) -> Segment | None:
        """The last segment. At a start on a full disk, it is an earlier agent's, and none is active."""
        return next(reversed(self.segments.values()), None)

    def free(self) -> int:
        """Free bytes on the disk.

        Raises:
            OSError: the disk does not tell.
        """
        disk = os.statvfs(self._home.path)
        return disk.f_bavail * disk.f_frsize if disk.f_blocks else _UNLIMITED

    def needs(self, size: int) -> int:
        """The bytes that `append` would add for frames of this size."""
        return size + len(self._opening()) if self.is_full_for(size) else size

    def append(self, entries: Sequence[Writing]) -> list[tuple[Segment, int]]:
        """Writes records, one frame each; returns their places.

        Raises:
            OSError: the disk cannot write; nothing has changed.
        """
        frames = [framed(entry.payload) for entry in entries]
        data = b"".join(frames)
        if self.is_full_for(len(data)):
            self.roll()
        active = self.active
        assert active is not None
        start = active.size
        try:
            _write(self._descriptor, data, start)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, start)
            raise
        self._dirty = True
        self._bytes += len(data)
        places = []
        for entry, frame in zip(entries, frames, strict=True):
            places.append((active, active.size))
            active.add(active.size + len(frame), entry.record.run_id)
            if not entry.moved:
                self.runs.apply(entry.record, active.number)
        return places

    def is_full_for(self, size: int) -> bool:
        """Whether a frame of this size begins a new segment."""
        active = self.active
        return active is None or (active.size > active.start and active.size + size > self._segment_bytes)

    def roll(self) -> None:
        """Starts a new segment.

        Raises:
            OSError: the disk cannot write; nothing has changed.
        """
        first = self._opening()
        number, file, descriptor = self._home.create(self._number + 1)
        try:
            _write(descriptor, first, 0)
        except OSError:
            os.close(descriptor)
            file.unlink(missing_ok=True)
            raise
        if self.active is not None:
            self._closing.append(self._descriptor)
        before, self.active = self.newest(), Segment(number, file, first)
        self._number, self._descriptor, self._dirty, self._made = number, descriptor, True, True
        self.segments[number] = self.active
        self._bytes += len(first)
        if before is not None:
            self.release(before)

    def _opening(self) -> bytes:
        return segment_header() + framed(opening(self.runs))

    def release(self, segment: Segment) -> None:
        """If all records of this segment are settled, deletes the files that are no longer needed.

        The newest segment stays: it alone shows which runs are open, and their positions.
        """
        if segment.left or segment is self.newest() or segment.gone or self._keeps_all:
            return
        before = self.segments.get(segment.number - 1)
        if before is not None and before.left:
            self._cut(segment)
        else:
            self.remove(segment)

    def keep_all(self, keep: bool) -> None:
        """While set, no segment is deleted because its records are settled: one may show losses not yet reported."""
        self._keeps_all = keep
        for segment in list(self.segments.values()):
            self.release(segment)

    def remove(self, segment: Segment) -> None:
        """Deletes a segment with all its records, and the next one if that was kept only for this one."""
        try:
            segment.file.unlink(missing_ok=True)
        except OSError as error:  # the next agent will find it again
            log.error("cannot delete a segment", extra={"file": str(segment.file), "reason": error.strerror})
        segment.gone = True
        del self.segments[segment.number]
        self._bytes -= segment.size
        behind = self.segments.get(segment.number + 1)
        if behind is not None:
            self.release(behind)

    def _cut(self, segment: Segment) -> None:
        if segment.size > segment.start:
            try:
                cut_segment(segment.file, segment.start)
            except OSError as error:
                log.error("cannot cut a segment", extra={"file": str(segment.file), "reason": error.strerror})
                return
            self._bytes -= segment.size - segment.start
            segment.empty()
        behind = self.segments.get(segment.number + 1)
        if behind is not None and not behind.left and behind is not self.newest():
            self.remove(behind)

    def restart_if_settled(self) -> bool:
        """Makes space on a full disk: if all records are settled, the only segment is emptied in place.

        Raises:
            OSError: the disk cannot write.
        """
        last, first = self.newest(), self._opening()
        if last is None or last.left or len(self.segments) > 1 or self._keeps_all:
            return False
        if not len(first) <= min(last.size - 1, _PAGE):
            return False
        descriptor = self._descriptor if self.active else open_segment(last.file, os.O_RDWR)
        try:
            _write(descriptor, first, 0)
            os.ftruncate(descriptor, len(first))
        except OSError:
            if self.active is None:
                os.close(descriptor)
            raise
        self._bytes += len(first) - last.size
        last.gone = True
        self.active = self.segments[last.number] = Segment(last.number, last.file, first)
        self._descriptor, self._dirty = descriptor, True
        return True

    def is_gone(self) -> bool:
        """Whether somebody has deleted or replaced the directory or the file that is written to."""
        if self._home.is_gone():
            return True
        try:
            return self.active is not None and not os.path.samestat(
                os.lstat(self.active.file), os.fstat(self._descriptor)
            )
        except FileNotFoundError:
            return True

    def restore(self) -> None:
        """Makes the directory and the file that is written to anew, with all that was written to it.

        Raises:
            SpoolInUse: another agent has made the directory meanwhile.
            OSError: the disk cannot write; it can be tried again.
        """
        self._home.renew()
        if self.active is None:
            return
        data = os.pread(self._descriptor, self.active.size, 0)
        self.active.file.unlink(missing_ok=True)
        _, _, descriptor = self._home.create(self.active.number)
        try:
            _write(descriptor, data, 0)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor, self._dirty, self._made = descriptor, True, True

    def sync(self) -> None:
        """Makes all written data durable.

        Raises:
            OSError: the disk cannot write.
        """
        for descriptor in [*self._closing, *([self._descriptor] if self.active else [])]:
            os.fdatasync(descriptor)

    def to_sync(self) -> list[int]:
        """Descriptors of files that are not durable yet. The caller syncs and closes them."""
        descriptors, self._closing = self._closing, []
        if self._dirty and self.active is not None:
            with contextlib.suppress(OSError):
                descriptors.append(os.dup(self._descriptor))
                self._dirty = False
        if self._made:
            with contextlib.suppress(OSError):
                descriptors.append(self._home.open())
                self._made = False
        return descriptors

    def close(self) -> None:
        """Closes the active segment."""
        if self.active is not None:
            os.close(self._descriptor)
            self.active = None


def _write(descriptor: int, data: bytes, offset: int) -> None:
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)
