"""Rows of different lengths: taken, continued and appended as lists would be."""

import numpy as np

from scope_views.flames.ragged import Ragged

ROWS = [[3, 5], [], [7], [11, 13, 17]]


def listed(rows: Ragged) -> list[list[int]]:
    ends = np.cumsum(rows.lengths)
    return [rows.flat[end - length : end].tolist() for end, length in zip(ends, rows.lengths, strict=True)]


def test_rows_are_taken_in_any_order() -> None:
    """A row may be taken often, or never."""
    assert listed(Ragged.of(ROWS).take(np.array([3, 1, 0, 3]))) == [ROWS[3], ROWS[1], ROWS[0], ROWS[3]]
    assert listed(Ragged.of(ROWS).take(np.array([], np.int64))) == []


def test_rows_are_continued() -> None:
    """By the same row of each other part; a negative number stands for no number."""
    ones = Ragged.of_one(np.array([1, -1, 2, -1]))
    assert listed(Ragged.side_by_side([ones, Ragged.of(ROWS), ones])) == [[1, 3, 5, 1], [], [2, 7, 2], ROWS[3]]


def test_rows_are_appended() -> None:
    """Of no part, there is no row."""
    assert listed(Ragged.one_below_the_other([Ragged.of(ROWS), Ragged.of(ROWS[2:])])) == [*ROWS, *ROWS[2:]]
    assert listed(Ragged.one_below_the_other([])) == []
