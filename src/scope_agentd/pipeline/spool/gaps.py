"""The Gaps that the spool writes. Until a Gap is read for sending, further losses of its stream are added to it."""

from collections.abc import Sequence
from typing import NamedTuple

from scope_agentd.pipeline.spool.log import Log
from scope_agentd.pipeline.spool.losses import DISK_FULL, Key, Lost
from scope_agentd.pipeline.spool.segment import Segment

_MOST_SPANS = 256  # of a Gap to which more may be added
_MOST_OPEN = 4096  # kept in memory


class OpenGap(NamedTuple):
    """A Gap's losses, and the place of its record."""

    lost: Lost
    segment: Segment
    offset: int


class OpenGaps:
    """Gaps that were not read yet: at most one per run, stream and reason. For one thread at a time."""

    def __init__(self) -> None:
        self._by_key: dict[Key, OpenGap] = {}
        self._by_place: dict[tuple[int, int], Key] = {}

    def extended(self, lost: Lost) -> Lost:
        """A loss together with those in the open Gap with the same key.

        Spans of batches that were never on disk are not joined with those in the open Gap: a run's position moves on
        span by span.
        """
        whole = Lost(lost.key, lost.task_id)
        before = self._by_key.get(lost.key)
        if before:
            whole.absorb(before.lost, apart=lost.key.reason == DISK_FULL)
        whole.absorb(lost)
        return whole

    def replace(self, whole: Lost, places: Sequence[tuple[Segment, int]], log: Log) -> None:
        """Notes where `whole`, from `extended`, was written. It replaces the open Gap with its key."""
        before = self._pop(whole.key)
        if before is not None and not before.segment.gone:
            before.segment.supersede(before.offset)
            log.release(before.segment)
        if len(places) == 1:
            self._put(OpenGap(whole, *places[0]))

    def at(self, segment: Segment, offset: int) -> OpenGap | None:
        """The open Gap whose record is at this place."""
        key = self._by_place.get((segment.number, offset))
        return self._by_key[key] if key is not None else None

    def close(self, segment: Segment, offset: int) -> OpenGap | None:
        """Closes the Gap whose record is at this place, if there is one: nothing more is added to it."""
        gap = self.at(segment, offset)
        return self._pop(gap.lost.key) if gap is not None else None

    def _put(self, gap: OpenGap) -> None:
        if gap.lost.spans <= _MOST_SPANS:
            self._by_key[gap.lost.key] = gap
            self._by_place[gap.segment.number, gap.offset] = gap.lost.key
            if len(self._by_key) > _MOST_OPEN:
                self._pop(next(iter(self._by_key)))

    def _pop(self, key: Key) -> OpenGap | None:
        gap = self._by_key.pop(key, None)
        if gap is not None:
            del self._by_place[gap.segment.number, gap.offset]
        return gap
