"""Frames of two samples: those that are made to differ are first, with their shares, and chance is not sure."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from scope_views.comparison.compare import Side
from scope_views.comparison.frames import MOST_FRAMES, DifferingFrame, differing_frames

MAIN, READ, SYNC, REST = 1, 2, 3, 4
STACKS = {10: [MAIN, READ], 11: [MAIN, SYNC, SYNC, SYNC], 12: [REST]}


def side(stacks: Sequence[int | None], **columns: object) -> Side:
    """Rows with these stacks, each of which counts once, or `count` times."""
    rows = pa.table({"stack": pa.array(stacks, pa.int64()), **columns})
    return Side(rows, "count" if "count" in columns else "", "block" if "block" in columns else "")


def test_what_is_made_to_differ_is_found() -> None:
    """Of rows with a stack; a frame that recurs in a stack counts once, and one that is as frequent is not said."""
    inside = side([11] * 53 + [10] * 47 + [None] * 1000)
    outside = side([10] * 199 + [12] + [None])
    found = differing_frames("stack", STACKS, (inside, outside))
    assert [(one.frame, one.inside, one.outside) for one in found] == [(SYNC, 0.53, 0.0), (READ, 0.47, 0.995)]
    assert min(one.sure for one in found) > 0.999999


def test_rows_count_as_often_as_they_say() -> None:
    """Rows of summaries have what they count; the weights are shares, not more evidence."""
    weighted = side([11, 10] * 50, count=[99, 1] * 50)
    plain = side([11, 10] * 50, count=[1, 99] * 50)
    (first, second) = differing_frames("stack", STACKS, (weighted, plain))
    assert {(one.frame, one.inside, one.outside) for one in (first, second)} == {(SYNC, 0.99, 0.01), (READ, 0.01, 0.99)}


def test_chance_is_not_sure() -> None:
    """Of two samples of the same thousand stacks, no frame differs; nor if the rows came in few blocks."""
    stacks = {key: [MAIN, 100 + key] for key in range(1000)}
    chance = np.random.default_rng(7)
    one, other = (side(chance.integers(0, 1000, 2003).tolist()) for _ in range(2))
    assert [found for found in differing_frames("stack", stacks, (one, other)) if found.sure > 0.99] == []
    blocks = [number // 500 for number in range(1000)]
    sides = side([11] * 500 + [10] * 500, block=blocks), side([10] * 1000, block=blocks)
    assert [found for found in differing_frames("stack", STACKS, sides) if found.sure > 0.99] == []


def test_there_are_never_too_many() -> None:
    """The ones that differ most are told; of none, none."""
    stacks = {key: [key] for key in range(100)}
    sides = side(list(range(50)) * 100), side(list(range(50, 100)) * 100)
    found = differing_frames("stack", stacks, sides)
    assert len(found) == MOST_FRAMES
    assert found == differing_frames("stack", stacks, sides)
    assert isinstance(found[0], DifferingFrame)
    assert differing_frames("stack", STACKS, (side([None]), side([10]))) == []
    assert differing_frames("stack", {}, (side([11]), side([10]))) == []
