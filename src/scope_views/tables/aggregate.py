"""Batches added up by group. Work is per batch and per group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import Count, Sum, Table
from scope_views.chosen import Chosen, check_columns
from scope_views.cut import cut_marked
from scope_views.errors import InvalidView
from scope_views.groups import Group, groups_of
from scope_views.tables.cells import CellValues

MOST_GROUPS = 20_000  # memory stays bounded: beyond this, the smaller half becomes one group

OTHER = "(other)"


class Aggregate:
    """The groups of a table. Of states, each state is a group, with its latest values.

    Attributes:
        groups: the values of the table's cells by group.
        dropped: how many groups of states were dropped to bound the memory.

    Raises:
        InvalidView: the stream lacks a column of the table, or a filter does not suit it.
    """

    def __init__(self, stream: DescribedStream, table: Table) -> None:
        self.stream, self.table = stream, table
        self.groups: dict[Group, list[Any]] = {}
        self.dropped = 0
        key = stream.latest.key if stream.latest else ()
        self._by = (*table.by, *(name for name in key if name not in table.by))
        of_cells = (getattr(cell, "column", "") for cell in table.cells)
        check_columns(stream, (*self._by, *filter(None, of_cells)))
        self._chosen = Chosen(stream, table.where)
        self._cells = CellValues(stream, table.cells)
        self._ranking = _ranking(stream, table)
        self._cut = [name for name in table.by if stream.by_name[name].cut_if]

    @property
    def columns(self) -> set[str]:
        """The columns it reads."""
        flags = {self.stream.by_name[name].cut_if for name in self._cut}
        return {*self._by, *flags} | self._chosen.columns | self._cells.columns

    @property
    def ranked_by(self) -> list[str]:
        """The columns whose sum ranks the groups; `count` for the number of rows."""
        ranking = (self.table.cells[place] for place in self._ranking)
        return [cell.column if isinstance(cell, Sum) else "count" for cell in ranking]

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        batch = self._chosen.of(batch)
        if not batch.num_rows:
            return
        groups, places = groups_of(self._marked(batch), self._by)
        if self.stream.latest:
            self._replace(batch, groups, places)
        else:
            self._add_up(batch, groups, places)
        if len(self.groups) > MOST_GROUPS:
            self._fold()

    def _marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, with ... in texts that make groups and were cut."""
        for name in self._cut:
            texts = cut_marked(batch[name].cast(pa.string()), batch, name, self.stream.by_name[name])
            batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
        return batch

    def _add_up(self, batch: pa.RecordBatch, groups: Sequence[Group], places: Any) -> None:
        by_cell = self._cells.by_group(batch, places, len(groups))
        for group, *values in zip(groups, *by_cell, strict=True):
            if known := self.groups.get(group):
                self._cells.add(known, values)
            else:
                self.groups[group] = values

    def _replace(self, batch: pa.RecordBatch, groups: Sequence[Group], places: Any) -> None:
        last = np.zeros(len(groups), np.int64)
        last[places] = np.arange(len(places))  # of several the later one stays
        values = [
            batch[cell.column].take(pa.array(last)).to_pylist() if isinstance(cell, Sum) else [None] * len(groups)
            for cell in self.table.cells
        ]
        for group, *found in zip(groups, *values, strict=True):
            self.groups[group] = found

    def _fold(self) -> None:
        ranked = sorted(self.groups.items(), key=lambda item: -self.rank(item[1]))
        kept, folded = ranked[: MOST_GROUPS // 2], ranked[MOST_GROUPS // 2 :]
        self.groups = dict(kept)
        if self.stream.latest:
            self.dropped += len(folded)  # states are not added up
            return
        other = (OTHER, *(None for _ in kept[0][0][1:]))
        for _, values in folded:
            if other in self.groups:
                self._cells.add(self.groups[other], values)
            else:
                self.groups[other] = values

    def rank(self, values: Sequence[Any]) -> float:
        """What groups are ranked by, the largest first."""
        return float(sum(values[place] or 0 for place in self._ranking))

    def shown(self) -> list[tuple[Group, list[Any]]]:
        """The groups with their values, those with the largest `rank` first; without states whose rank is 0."""
        found = [item for item in self.groups.items() if not self.stream.latest or self.rank(item[1])]
        return sorted(found, key=lambda item: -self.rank(item[1]))

    def total(self) -> list[Any] | None:
        """The values of all groups together; None for states, which are not added up, and without groups."""
        if self.stream.latest or not self.groups:
            return None
        total = self._cells.empty()
        for values in self.groups.values():
            self._cells.add(total, values)
        return total


def _ranking(stream: DescribedStream, table: Table) -> tuple[int, ...]:
    """The places of the cells whose sum ranks the groups."""
    sums = {cell.column: place for place, cell in enumerate(table.cells) if isinstance(cell, Sum)}
    if strange := [name for name in table.ranked_by if name not in sums]:
        raise InvalidView(f"how stream '{stream.name}' is shown is not valid: no sum of '{strange[0]}' ranks groups")
    counts = [place for place, cell in enumerate(table.cells) if isinstance(cell, Count)]
    found = tuple(sums[name] for name in table.ranked_by) or (*counts, *sums.values())[-1:]
    if not found:
        raise InvalidView(f"how stream '{stream.name}' is shown is not valid: a table has neither a sum nor a count")
    return found
