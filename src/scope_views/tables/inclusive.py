"""A table of functions with their own time, and with the time of the functions that they call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import Inclusive as Cell
from scope_catalogue.tables import Table
from scope_views.flames.stacks import kind_of
from scope_views.groups import Group, groups_of
from scope_views.tables.aggregate import Aggregate

_CUT = "[cut]"  # no function: where frames are missing


class Inclusive(Aggregate):
    """An aggregate by function that has a cell `Inclusive`."""

    def __init__(self, stream: DescribedStream, table: Table) -> None:
        super().__init__(stream, table)
        self._place, self._cell = next(
            (place, cell) for place, cell in enumerate(table.cells) if isinstance(cell, Cell)
        )

    def _add_up(self, batch: pa.RecordBatch, groups: Sequence[Group], places: Any) -> None:
        super()._add_up(batch, groups, places)
        at = self.table.by.index(self._cell.of)
        names = [*self.table.by]
        names[at] = self._cell.stack
        stacks, places = groups_of(batch, names)
        column = self._cell.column
        weights = np.bincount(places, batch[column].fill_null(0) if column else None, len(stacks)).astype(np.int64)
        for group, weight in zip(stacks, weights.tolist(), strict=True):
            for function in {*filter(self._is_listed, (group[at] or "").split(";"))}:
                values = self._of((*group[:at], function, *group[at + 1 :]))
                values[self._place] = (values[self._place] or 0) + weight

    def _is_listed(self, frame: str) -> bool:
        return frame not in ("", _CUT) and (self._cell.of != "python" or kind_of(frame) == "python")

    def _of(self, group: Group) -> list[Any]:
        if group not in self.groups:
            self.groups[group] = self._cells.empty()
        return self.groups[group]

    def shown(self) -> list[tuple[Group, list[Any]]]:
        """The groups, those with the largest `rank` first; then those that only call others."""
        return sorted(self.groups.items(), key=lambda item: (-self.rank(item[1]), -(item[1][self._place] or 0)))

    def total(self) -> list[Any] | None:
        """The values of all groups together; rows are in the inclusive time of several, but count once."""
        if total := super().total():
            total[self._place] = total[self._ranking[-1]]
        return total
