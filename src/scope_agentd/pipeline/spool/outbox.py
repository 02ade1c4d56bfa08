"""Gives records for sending, in order; again if they were deferred or the connection broke."""

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scope_agentd.pipeline.spool.deferral import Deferral
from scope_agentd.pipeline.spool.entries import to_send
from scope_agentd.pipeline.spool.keeper import Keeper
from scope_agentd.pipeline.spool.log import Log
from scope_agentd.pipeline.spool.reader import Reader
from scope_agentd.pipeline.spool.segment import SETTLED, Segment

log = logging.getLogger(__name__)

_READ_AGAIN_S = 1.0


class Outcome(StrEnum):
    """The server's answer to a record. After LATER, the record is sent again; after others, it is settled."""

    STORED = "stored"
    REFUSED = "refused"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Spooled:
    """A record to send. `position` identifies this delivery; `crc32` is the checksum of `record`."""

    position: int
    record: bytes
    crc32: int


class _Taken(NamedTuple):
    segment: Segment
    at: int  # index of the record in the segment


class Outbox:
    """For one thread at a time. Times are of `time.monotonic`."""

    def __init__(self, log: Log, keeper: Keeper) -> None:
        self._log, self._keeper = log, keeper
        self._reader = Reader()
        self._deferral = Deferral()
        self._taken: dict[int, _Taken] = {}
        self._position = 0
        self._reading: Segment | None = None
        self._readable_at = 0.0

    def next(self, now: float) -> Spooled | None:
        """The oldest waiting record, which counts as sent from now on; None: no record waits, or none can be read."""
        if now < self._readable_at:
            return None
        if self._deferral.wake(now):
            self._reading = None
        self._readable_at = 0.0
        try:
            while (segment := self._ready()) is not None:
                spooled = self._from(segment)
                if spooled is not None:
                    return spooled
        except OSError as error:
            log.error("the spool cannot be read; trying again", extra={"reason": error.strerror})
            self._readable_at = now + _READ_AGAIN_S
        self._reader.close()  # a deleted segment uses disk space as long as it is open
        return None

    def pause(self, now: float) -> float | None:
        """Time in s until there may be a record again; None: only `put` or an answer changes that."""
        pauses = (self._deferral.pause(now), max(0.0, self._readable_at - now) if self._readable_at else None)
        return min((pause for pause in pauses if pause is not None), default=None)

    def _ready(self) -> Segment | None:
        reading = self._reading
        if reading is None or reading.gone or not reading.ready:
            reading = next((segment for segment in self._log.segments.values() if segment.ready), None)
            self._reading = reading
        return reading

    def _from(self, segment: Segment) -> Spooled | None:
        index, offset = segment.next()
        if index is None and segment.passes():
            return None
        frame = self._reader.frame(segment, offset)
        if frame is None:
            self._damaged(segment, index, offset)
            return None
        index = segment.take(index, frame.end)
        if segment.state(index) == SETTLED:  # superseded
            return None
        sending = to_send(frame)
        if sending is None:
            self._settle(segment, index)
            return None
        self._keeper.gaps.close(segment, offset)
        self._position += 1
        self._taken[self._position] = _Taken(segment, index)
        return Spooled(self._position, *sending)

    def _damaged(self, segment: Segment, index: int | None, offset: int) -> None:
        self._reader.close()
        if not segment.is_bad(offset):
            self._keeper.examine(segment)
        if index is not None and segment.is_bad(offset) and not segment.gone:
            self._settle(segment, index)

    def _settle(self, segment: Segment, index: int) -> None:
        segment.settle(index)
        if not segment.left:
            self._log.release(segment)

    def settle(self, position: int, outcome: Outcome, now: float) -> None:
        """Notes the answer to a record. Unknown positions are ignored: their records were dropped meanwhile."""
        taken = self._taken.pop(position, None)
        if taken is None or taken.segment.gone:
            return
        if outcome is Outcome.LATER:
            self._deferral.defer(taken.segment, taken.at, now)
        else:
            self._settle(taken.segment, taken.at)

    def rewind(self) -> None:
        """Makes all unanswered records wait again."""
        for segment, index in self._taken.values():
            if not segment.gone:
                segment.give_back(index)
        self._taken.clear()
        self._reading = None

    def close(self) -> None:
        """Closes the file that is open for reading."""
        self._reader.close()
