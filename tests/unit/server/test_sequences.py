"""Sets of settled sequences."""

import random

import pytest

from scope_server.store.writing.sequences import Sequences


def _of(*spans: tuple[int, int]) -> Sequences:
    found = Sequences()
    for first, last in spans:
        found.add(first, last)
    return found


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        ([], "{}"),
        ([(1, 1)], "{[1,2)}"),
        ([(1, 1), (2, 2), (3, 9)], "{[1,10)}"),
        ([(5, 6), (1, 2)], "{[1,3),[5,7)}"),
        ([(1, 2), (5, 6), (9, 9), (2, 7)], "{[1,8),[9,10)}"),
        ([(5, 6), (5, 6), (1, 1 << 62)], f"{{[1,{(1 << 62) + 1})}}"),
    ],
)
def test_spans_that_touch_are_one(spans: list[tuple[int, int]], text: str) -> None:
    """Touching spans are joined; the text is a PostgreSQL multirange, and is read back unchanged."""
    assert str(_of(*spans)) == text
    assert str(Sequences.parse(text)) == text


def test_it_is_a_set() -> None:
    """overlaps, covers and the content equal those of a plain set of numbers, in any order of adds."""
    chance = random.Random(7)
    for _ in range(200):
        found, plain = Sequences(), set[int]()
        for _ in range(chance.randrange(12)):
            first = chance.randrange(1, 40)
            last = first + chance.randrange(6)
            found.add(first, last)
            plain |= set(range(first, last + 1))
        for first in range(1, 45):
            for last in range(first, min(first + 5, 46)):
                asked = set(range(first, last + 1))
                assert found.overlaps(first, last) == bool(asked & plain)
                assert found.covers(first, last) == (asked <= plain)
        assert {number for first, last in found for number in range(first, last + 1)} == plain
