"""Reads frames for sending, in pieces of a segment."""

import os

from scope_agentd.pipeline.spool.layout import Frame, frame_at, open_segment
from scope_agentd.pipeline.spool.segment import Segment
from scope_wire.errors import DamagedRecord
from scope_wire.frame import HEADER_BYTES, read_header

_AHEAD = 256 << 10  # bytes


class Reader:
    """Keeps the last segment open. For one thread at a time."""

    def __init__(self) -> None:
        self._segment: Segment | None = None
        self._descriptor = -1
        self._piece, self._piece_at = b"", 0

    def frame(self, segment: Segment, offset: int) -> Frame | None:
        """The frame at this offset; None: it is damaged or cannot be read."""
        try:
            self._turn_to(segment)
            header = self._part(offset, HEADER_BYTES)
            length = HEADER_BYTES + read_header(self._piece[header : header + HEADER_BYTES]).length
            start = self._part(offset, length)
        except (OSError, DamagedRecord):
            return None
        return frame_at(self._piece, start, offset)

    def _turn_to(self, segment: Segment) -> None:
        if self._segment is segment:
            return
        self.close()
        self._descriptor = open_segment(segment.file)
        self._segment = segment

    def _part(self, offset: int, length: int) -> int:
        # Reads ahead only up to `size`: a frame after it may be incomplete.
        start = offset - self._piece_at
        if start < 0 or start + length > len(self._piece):
            assert self._segment is not None
            most = min(max(length, _AHEAD), self._segment.size - offset)
            self._piece, self._piece_at = os.pread(self._descriptor, most, offset), offset
            start = 0
        return start

    def close(self) -> None:
        """Closes the open segment."""
        if self._segment is not None:
            os.close(self._descriptor)
        self._segment, self._piece, self._piece_at = None, b"", 0
