"""Gaps that the spool wrote and nobody has read yet: what is lost next of the same stream is added to them."""

from typing import NamedTuple

from scope_agentd.pipeline.spool.losses import Key, Lost
from scope_agentd.pipeline.spool.segment import Segment

MOST_SPANS = 256  # of one that is still added to


class OpenGap(NamedTuple):
    """A Gap: what it tells, and where its record lies."""

    lost: Lost
    segment: Segment
    offset: int


class OpenGaps:
    """One for each run, stream and reason, at most."""

    def __init__(self) -> None:
        self._by_key: dict[Key, OpenGap] = {}
        self._by_place: dict[tuple[int, int], Key] = {}

    def put(self, gap: OpenGap) -> None:
        """A Gap was written; it is closed at once if it has many spans already."""
        if gap.lost.spans <= MOST_SPANS:
            self._by_key[gap.lost.key] = gap
            self._by_place[gap.segment.number, gap.offset] = gap.lost.key

    def pop(self, key: Key) -> OpenGap | None:
        """The one to add to. Another one is written in its place."""
        gap = self._by_key.pop(key, None)
        if gap is not None:
            del self._by_place[gap.segment.number, gap.offset]
        return gap

    def close(self, segment: Segment, offset: int) -> OpenGap | None:
        """Nothing is added any more to the one whose record lies here, if there is one."""
        key = self._by_place.get((segment.number, offset))
        return self.pop(key) if key is not None else None
