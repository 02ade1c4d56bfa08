"""The Gaps that the spool writes. Until a Gap is read for sending, further losses of its stream are added to it."""

from typing import NamedTuple

from scope_agentd.pipeline.spool.log import Log
from scope_agentd.pipeline.spool.losses import Key, Lost
from scope_agentd.pipeline.spool.overflow import Overflow
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

    def tell(self, lost: Lost, log: Log, overflow: Overflow) -> bool:
        """Writes a Gap for a loss, replacing the open Gap with the same key; False: the disk cannot write."""
        before = self._pop(lost.key)
        whole = Lost(lost.key, lost.task_id)
        for one in (before.lost, lost) if before else (lost,):
            whole.absorb(one)
        written: OpenGap | None = None
        records = list(whole.records())
        for record in records:
            try:
                written = OpenGap(whole, *log.append(record.SerializeToString(), record))
            except OSError:
                if written is None:
                    if before is not None:
                        self._put(before)
                    return False
                overflow.keep(record)
        if before is not None and not before.segment.gone:
            before.segment.supersede(before.offset)
            log.release(before.segment)
        if written is not None and len(records) == 1:
            self._put(written)
        return True

    def close(self, segment: Segment, offset: int) -> OpenGap | None:
        """Closes the Gap whose record is at this place, if there is one: nothing more is added to it."""
        key = self._by_place.get((segment.number, offset))
        return self._pop(key) if key is not None else None

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
