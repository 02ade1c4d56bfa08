"""Spans of sequences: which parts of a span are not reported yet."""

import random

from scope_agentd.pipeline.spool.spans import Span, Spans


def test_what_remains_of_a_span() -> None:
    """remaining() gives the uncovered parts of a span; the uncounted events go to the first part."""
    spans = Spans()
    spans.add(Span(5, 6, 20))
    spans.add(Span(8, 8, 3))
    assert spans.remaining(Span(1, 10, 100)) == [Span(1, 4, 77), Span(7, 7, 0), Span(9, 10, 0)]
    assert spans.remaining(Span(5, 6, 20)) == []
    assert spans.remaining(Span(6, 8, 9)) == [Span(7, 7, 0)]
    assert spans.remaining(Span(20, 21, 4)) == [Span(20, 21, 4)]


def test_a_wider_span_takes_the_place_of_those_in_it() -> None:
    """A wider span replaces the spans inside it, as a rewritten Gap does; a span inside another adds nothing."""
    spans = Spans()
    for span in (Span(1, 3, 3), Span(5, 9, 5), Span(1, 9, 20), Span(2, 4, 9)):
        spans.add(span)
    assert spans.remaining(Span(1, 10, 25)) == [Span(10, 10, 5)]


def test_against_a_set() -> None:
    """Random spans cover the same sequences as a plain set."""
    chance = random.Random(1)
    for _ in range(300):
        spans, model = Spans(), set[int]()
        for _ in range(12):
            first = chance.randrange(1, 60)
            last = first + chance.choice([0, 0, 1, 7])
            if not model & set(range(first, last + 1)):
                spans.add(Span(first, last, 1))
                model |= set(range(first, last + 1))
        first = chance.randrange(1, 60)
        asked = Span(first, first + chance.randrange(30), 0)
        remaining = {at for part in spans.remaining(asked) for at in range(part.first, part.last + 1)}
        assert remaining == set(range(asked.first, asked.last + 1)) - model
