"""Sets of sequence numbers as spans, for the settled part of a run's stream."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

_SPAN = re.compile(r"\[(\d+),(\d+)\)")


class Sequences:
    """A set of whole numbers as ordered, disjoint spans. Iterates over (first, last)."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @classmethod
    def parse(cls, multirange: str) -> "Sequences":
        """The set from the text of an int8multirange, such as `{[1,5),[7,8)}`."""
        found = cls()
        for first, end in _SPAN.findall(multirange):
            found._firsts.append(int(first))
            found._lasts.append(int(end) - 1)
        return found

    def copy(self) -> "Sequences":
        """An equal set."""
        same = Sequences()
        same._firsts, same._lasts = self._firsts.copy(), self._lasts.copy()
        return same

    def __str__(self) -> str:
        return "{" + ",".join(f"[{first},{last + 1})" for first, last in self) + "}"

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        return len(self._firsts)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any of first to last is in the set."""
        at = bisect_left(self._lasts, first)
        return at < len(self) and self._firsts[at] <= last

    def covers(self, first: int, last: int) -> bool:
        """Whether all of first to last are in the set."""
        at = bisect_left(self._lasts, first)
        return at < len(self) and self._firsts[at] <= first and last <= self._lasts[at]

    def add(self, first: int, last: int) -> None:
        """Adds first to last."""
        begin = bisect_left(self._lasts, first - 1)  # merges adjacent spans
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]
