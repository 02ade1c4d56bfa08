"""A table of functions with their own time, and with the time of the functions that they call."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scope_views.groups import Group, groups_of
from scope_views.tables.aggregate import Aggregate, Sums
from scope_views.tables.durations import Durations

INCLUSIVE = "inclusive"
_CUT = "[cut]"  # no function: where frames are missing


@dataclass
class Inclusive(Aggregate):
    """An aggregate with one more number: the sum of the last total over all rows with the function in their stack."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return (*super().columns, self.live.inclusive)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers of a group, in order."""
        return (*super().numbers, INCLUSIVE)

    @property
    def ranked_by(self) -> tuple[str, ...]:
        """The function's own."""
        return self.live.ranked_by or self.live.totals[-1:]

    def _added(self, name: str, batch: pa.RecordBatch, places: Any, count: int) -> list[int | None]:
        return [None] * count if name == INCLUSIVE else super()._added(name, batch, places, count)

    def _add_up(self, batch: pa.RecordBatch, groups: list[Group], places: Any) -> None:
        super()._add_up(batch, groups, places)
        at = self.live.by.index("function")
        names = [*self.live.by]
        names[at] = self.live.inclusive
        stacks, places = groups_of(batch, names)
        weights = np.bincount(places, batch[self.live.totals[-1]].fill_null(0), len(stacks)).astype(np.int64)
        for group, weight in zip(stacks, weights.tolist(), strict=True):
            for function in {*(group[at] or "").split(";")} - {"", _CUT}:
                sums = self._of((*group[:at], function, *group[at + 1 :]))
                sums.numbers[-1] = (sums.numbers[-1] or 0) + weight

    def _of(self, group: Group) -> Sums:
        if group not in self.groups:
            self.groups[group] = Sums([None] * len(self.numbers), [Durations() for _ in self.live.quantiles])
        return self.groups[group]

    def shown(self) -> list[tuple[Group, Sums]]:
        """The groups, those with the largest `rank` first; then those that only call others."""
        return sorted(self.groups.items(), key=lambda item: (-self.rank(item[1]), -(item[1].numbers[-1] or 0)))

    def total(self) -> Sums | None:
        """The sum of all groups; rows are in the inclusive time of several, but count once."""
        if total := super().total():
            total.numbers[-1] = total.numbers[-2]
        return total
