"""Losses of a run's stream, and the Gap that reports them."""

from collections.abc import Iterator
from typing import NamedTuple

from scope_agentd.pipeline.spool.spans import Span
from scope_proto.scope.v1.record_pb2 import Gap, Record

PLACE = "spool"
FULL, DISK_FULL, DAMAGED = "full", "disk_full", "damaged"
_MOST_SPANS = 16_384  # in one Gap: 34 bytes each at most


class Key(NamedTuple):
    """The subject of a Gap."""

    run_id: bytes
    stream: str
    reason: str


class Times(NamedTuple):
    """Times of lost events: first and last CLOCK_BOOTTIME, and the offset to UTC."""

    first_ktime_ns: int
    last_ktime_ns: int
    boot_to_utc_ns: int


class Lost:
    """Lost sequence numbers of one stream of one run, with the same reason."""

    def __init__(self, key: Key, task_id: bytes) -> None:
        self.key, self.task_id = key, task_id
        self._spans: list[tuple[Span, bool]] = []
        self._times: Times | None = None

    def add(self, span: Span, times: Times, apart: bool) -> None:
        """Adds sequence numbers. Those `apart` keep a span of their own: the server may have settled some of them."""
        before, before_apart = self._spans[-1] if self._spans else (span, True)
        if not apart and not before_apart and before.last + 1 == span.first:
            self._spans[-1] = Span(before.first, span.last, before.events + span.events), False
        else:
            self._spans.append((span, apart))
        self._widen(times)

    def absorb(self, other: "Lost", apart: bool = False) -> None:
        """Adds the losses of another object with the same key; `apart`: its spans keep their limits."""
        self._spans += [(span, own or apart) for span, own in other._spans]
        if other._times is not None:
            self._widen(other._times)

    def _widen(self, times: Times) -> None:
        if self._times is None:
            self._times = times
            return
        first = min(self._times.first_ktime_ns, times.first_ktime_ns)
        last = max(self._times.last_ktime_ns, times.last_ktime_ns)
        self._times = Times(first, last, max(self._times, times, key=lambda one: one.last_ktime_ns).boot_to_utc_ns)

    @property
    def spans(self) -> int:
        """Number of spans."""
        self._join()
        return len(self._spans)

    def records(self) -> Iterator[Record]:
        """The Gaps for these losses: one, unless there are very many spans."""
        self._join()
        for start in range(0, len(self._spans), _MOST_SPANS):
            gap = Gap(stream=self.key.stream, place=PLACE, reason=self.key.reason)
            if self._times is not None:
                gap.first_ktime_ns, gap.last_ktime_ns, gap.boot_to_utc_ns = self._times
            for span, _ in self._spans[start : start + _MOST_SPANS]:
                gap.spans.add(first=span.first, last=span.last, events=span.events)
            yield Record(run_id=self.key.run_id, task_id=self.task_id, gap=gap)

    def _join(self) -> None:
        joined: list[tuple[Span, bool]] = []
        for span, apart in sorted(self._spans):
            if joined and not apart and not joined[-1][1] and joined[-1][0].last + 1 == span.first:
                before = joined[-1][0]
                joined[-1] = Span(before.first, span.last, before.events + span.events), False
            else:
                joined.append((span, apart))
        self._spans = joined


class Losses:
    """Losses of any number of runs and streams."""

    def __init__(self) -> None:
        self._lost: dict[Key, Lost] = {}

    def __len__(self) -> int:
        return len(self._lost)

    def __iter__(self) -> Iterator[Lost]:
        return iter(list(self._lost.values()))

    def of(self, key: Key, task_id: bytes) -> Lost:
        """The losses of this key, to add to."""
        return self._lost.setdefault(key, Lost(key, task_id))

    def absorb(self, lost: Lost) -> None:
        """Adds losses of one key."""
        self.of(lost.key, lost.task_id).absorb(lost)

    def add_batch(self, record: Record, reason: str, sent: bool) -> None:
        """Adds the batch in this record, which may have been `sent`."""
        batch = record.batch
        times = Times(batch.first_ktime_ns, batch.last_ktime_ns, batch.boot_to_utc_ns)
        span = Span(batch.sequence, batch.sequence, batch.event_count)
        self.of(Key(record.run_id, batch.stream, reason), record.task_id).add(span, times, sent)

    def clear(self) -> None:
        """Removes all losses: they were reported."""
        self._lost.clear()


def spans_of(gap: Gap) -> list[Span]:
    """The spans of a Gap."""
    return [Span(span.first, span.last, span.events) for span in gap.spans]
