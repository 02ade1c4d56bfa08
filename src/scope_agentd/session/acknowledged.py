"""What the server has acknowledged, by run and stream. A server whose database was restored learns what is gone."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from scope_agentd.pipeline.spool.spans import Span
from scope_proto.scope.v1 import record_pb2, session_pb2

_MOST_RUNS = 1000  # the oldest are forgotten
_MOST_SPANS = 100  # in a message; more of a stream cannot be told
_MOST_BYTES = 256 << 10  # of all messages


@dataclass
class Answered:
    """The answered part of a record.

    Attributes:
        ktime_ns: CLOCK_BOOTTIME of the last event.
    """

    run_id: bytes
    stream: str
    spans: list[Span]
    ktime_ns: int
    boot_to_utc_ns: int


@dataclass
class _Stream:
    spans: list[Span] = field(default_factory=list)  # in order, not adjacent
    ktime_ns: int = 0
    boot_to_utc_ns: int = 0

    def add(self, span: Span) -> None:
        at = bisect_left(self.spans, span.first, key=lambda one: one.last)
        if at < len(self.spans) and self.spans[at].first <= span.last:
            return  # answered before
        if at < len(self.spans) and self.spans[at].first == span.last + 1:
            span = _joined(span, self.spans.pop(at))
        if at and self.spans[at - 1].last + 1 == span.first:
            at -= 1
            span = _joined(self.spans.pop(at), span)
        self.spans.insert(at, span)


class Acknowledged:
    """For the event loop. It has no sequence numbers that an earlier agent sent."""

    def __init__(self) -> None:
        self._runs: dict[bytes, dict[str, _Stream]] = {}

    def add(self, answered: Answered) -> None:
        """Notes that a record was answered, and is not sent again."""
        streams = self._runs.setdefault(answered.run_id, {})
        stream = streams.setdefault(answered.stream, _Stream())
        for span in answered.spans:
            stream.add(span)
        if answered.ktime_ns >= stream.ktime_ns:
            stream.ktime_ns, stream.boot_to_utc_ns = answered.ktime_ns, answered.boot_to_utc_ns
        if len(self._runs) > _MOST_RUNS:
            del self._runs[next(iter(self._runs))]

    def messages(self) -> Iterator[session_pb2.Acknowledged]:
        """All that can be told in a report, the newest runs first."""
        room = _MOST_BYTES
        for run_id, streams in reversed(self._runs.items()):
            for name, stream in streams.items():
                if len(stream.spans) > _MOST_SPANS:
                    continue
                message = session_pb2.Acknowledged(
                    run_id=run_id,
                    stream=name,
                    spans=[record_pb2.Span(**span._asdict()) for span in stream.spans],
                    last_ktime_ns=stream.ktime_ns,
                    boot_to_utc_ns=stream.boot_to_utc_ns,
                )
                room -= message.ByteSize()
                if room < 0:
                    return
                yield message


def to_answer(record: record_pb2.Record) -> Answered | None:
    """What an answer to this record acknowledges; None: no sequence numbers."""
    if record.HasField("batch"):
        batch = record.batch
        spans = [Span(batch.sequence, batch.sequence, batch.event_count)]
        return Answered(record.run_id, batch.stream, spans, batch.last_ktime_ns, batch.boot_to_utc_ns)
    if record.HasField("gap"):
        gap = record.gap
        spans = [Span(span.first, span.last, span.events) for span in gap.spans]
        return Answered(record.run_id, gap.stream, spans, gap.last_ktime_ns, gap.boot_to_utc_ns)
    return None


def _joined(one: Span, following: Span) -> Span:
    return Span(one.first, following.last, one.events + following.events)
