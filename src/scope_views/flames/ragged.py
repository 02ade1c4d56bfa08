"""Rows of numbers of different lengths, in one array: what is done with all of them is done by numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from scope_views.flames.tree import Integers


@dataclass(frozen=True)
class Ragged:
    """Rows of numbers.

    Attributes:
        flat: the numbers of all rows, one row after the other.
        lengths: how many numbers each row has.
    """

    flat: Integers
    lengths: Integers

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """These rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = np.fromiter((number for row in rows for number in row), np.int64, int(lengths.sum()))
        return cls(flat, lengths)

    @classmethod
    def of_one(cls, numbers: Integers) -> Self:
        """Rows of one number each, or of none where it is negative."""
        has = numbers >= 0
        return cls(numbers[has], has.astype(np.int64))

    @property
    def starts(self) -> Integers:
        """Where each row begins."""
        return np.cumsum(self.lengths) - self.lengths

    def take(self, rows: Integers) -> Self:
        """The rows with these numbers, in this order."""
        lengths = self.lengths[rows]
        return type(self)(self.flat[_places(self.starts[rows], lengths)], lengths)

    @classmethod
    def side_by_side(cls, parts: Sequence[Self]) -> Self:
        """Each row of the first part, continued by the same row of the others."""
        lengths: Integers = np.stack([part.lengths for part in parts]).sum(axis=0)
        flat = np.empty(int(lengths.sum()), np.int64)
        free = np.cumsum(lengths) - lengths
        for part in parts:
            flat[_places(free, part.lengths)] = part.flat
            free += part.lengths
        return cls(flat, lengths)

    @classmethod
    def one_below_the_other(cls, parts: Sequence[Self]) -> Self:
        """The rows of the first part, then those of the others."""
        none = np.zeros(0, np.int64)
        return cls(
            np.concatenate([none, *(part.flat for part in parts)]),
            np.concatenate([none, *(part.lengths for part in parts)]),
        )


def _places(starts: Integers, lengths: Integers) -> Integers:
    """The numbers from each start, as many as its length says."""
    before = np.cumsum(lengths) - lengths
    found: Integers = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return found
