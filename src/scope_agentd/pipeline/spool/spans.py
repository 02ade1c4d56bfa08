"""Sequence numbers by run and stream, as spans with their event counts."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Sequence numbers first to last of one stream of one run, and the number of events in them."""

    first: int
    last: int
    events: int


class Spans:
    """Spans of one stream that do not overlap, in order."""

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Adds a span; it replaces spans inside it. A span inside an existing one changes nothing."""
        if not self._gaps(span):
            return
        start, end = self._touched(span)
        inside = all(span.first <= one.first and one.last <= span.last for one in self._spans[start:end])
        if inside:
            self._spans[start:end] = [span]

    def remaining(self, span: Span) -> list[Span]:
        """The missing parts of a span. The first part gets all missing events."""
        parts = self._gaps(span)
        if not parts:
            return []
        start, end = self._touched(span)
        events = max(0, span.events - sum(one.events for one in self._spans[start:end]))
        return [Span(first, last, 0 if at else events) for at, (first, last) in enumerate(parts)]

    def _touched(self, span: Span) -> tuple[int, int]:
        start = bisect_left(self._spans, span.first, key=lambda one: one.last)
        end = start
        while end < len(self._spans) and self._spans[end].first <= span.last:
            end += 1
        return start, end

    def _gaps(self, span: Span) -> list[tuple[int, int]]:
        parts, at = [], span.first
        start, end = self._touched(span)
        for one in self._spans[start:end]:
            if one.first > at:
                parts.append((at, one.first - 1))
            at = max(at, one.last + 1)
        if at <= span.last:
            parts.append((at, span.last))
        return parts


class Told:
    """Sequence numbers that a Gap already reports, by run and stream."""

    def __init__(self) -> None:
        self._streams: dict[tuple[bytes, str], Spans] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, run_id: bytes, stream: str, span: Span) -> None:
        """Adds a span that a Gap reports."""
        self._streams.setdefault((run_id, stream), Spans()).add(span)

    def remaining(self, run_id: bytes, stream: str, span: Span) -> list[Span]:
        """The parts of a span that no Gap reports."""
        told = self._streams.get((run_id, stream))
        return told.remaining(span) if told else [span]

    def has(self, run_id: bytes, stream: str, spans: Iterable[Span]) -> bool:
        """Whether Gaps report all of these spans."""
        return all(not self.remaining(run_id, stream, span) for span in spans)
