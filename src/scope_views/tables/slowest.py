"""The slowest rows of a stream, and what took longer in them than in the median row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import SlowestRows
from scope_views.chosen import Chosen, check_columns
from scope_views.tables.durations import Durations

MOST_ROWS = 12
_WORTH_TELLING = 0.1  # of what the row took longer
_CAUSES = "causes of the slow row"  # a key that is no column's name


class Usual:
    """How long the rows of a stream usually take, and what made a slow one longer.

    Raises:
        InvalidView: the stream lacks a column, or a filter does not suit it.
    """

    def __init__(self, stream: DescribedStream, table: SlowestRows) -> None:
        check_columns(stream, (table.duration, *table.parts))
        self._table = table
        self._causes = [(Chosen(stream, where), text) for where, text in table.causes.items()]
        self._seen = {name: Durations() for name in (table.duration, *table.parts)}

    @property
    def columns(self) -> set[str]:
        """The columns it reads."""
        return {*self._seen}.union(*(cause.columns for cause, _ in self._causes))

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows that have a duration."""
        together = np.zeros(batch.num_rows, np.int64)
        for name, seen in self._seen.items():
            (found,) = Durations.by_group(batch[name], together, 1)
            seen.add(found)

    def median_ns(self, name: str) -> float:
        """Of a part, or the duration."""
        return self._seen[name].quantile(0.5) or 0

    def longer_ns(self, row: Mapping[str, Any], name: str) -> float:
        """How much longer a part of a row, or the whole row, took than the median."""
        return float(row[name] or 0) - self.median_ns(name)

    def causes(self, batch: pa.RecordBatch) -> list[list[str]]:
        """What slowed each row, as far as its columns say."""
        found: list[list[str]] = [[] for _ in range(batch.num_rows)]
        for cause, text in self._causes:
            for place, applies in enumerate(cause.mask(batch).to_pylist()):
                if applies and text not in found[place]:
                    found[place].append(text)
        return found

    def longer_parts(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Which parts took longer, by how many ns, the most first; none if a part is not known."""
        if any(row[name] is None for name in self._table.parts):
            return {}
        longer = {name: self.longer_ns(row, name) for name in self._table.parts}
        least = _WORTH_TELLING * max([1, *longer.values()])
        told = {name: ns for name, ns in longer.items() if ns >= least}
        return dict(sorted(told.items(), key=lambda item: -item[1]))


class Slowest:
    """What a table of the slowest rows shows. Rows without a duration are left out.

    Attributes:
        rows: the slowest ones, the slowest first.
        count: of all rows that the table is about.
        usual: what the rows are compared with.

    Raises:
        InvalidView: the stream lacks a column, or a filter does not suit it.
    """

    def __init__(self, stream: DescribedStream, table: SlowestRows) -> None:
        self.stream, self.table = stream, table
        self.rows: list[dict[str, Any]] = []
        self.count = 0
        check_columns(stream, table.columns)
        self.usual = Usual(stream, table)
        self._chosen = Chosen(stream, table.where)
        flags = (stream.by_name[name].cut_if for name in table.columns)
        self._kept = list(dict.fromkeys((*table.columns, *filter(None, flags), table.duration, *table.parts)))

    @property
    def columns(self) -> set[str]:
        """The columns it reads."""
        return {*self._kept} | self._chosen.columns | self.usual.columns

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        duration = self.table.duration
        batch = self._chosen.of(batch)
        batch = batch.filter(batch[duration].is_valid())
        self.count += batch.num_rows
        if not batch.num_rows:
            return
        self.usual.add(batch)
        slowest = batch.take(pc.select_k_unstable(batch, MOST_ROWS, [(duration, "descending")]))
        told = zip(slowest.select(self._kept).to_pylist(), self.usual.causes(slowest), strict=True)
        rows = [{**row, _CAUSES: causes} for row, causes in told]
        self.rows = sorted((*self.rows, *rows), key=lambda row: -int(row[duration]))[:MOST_ROWS]

    def causes(self, row: dict[str, Any]) -> list[str]:
        """What slowed the row, as far as its columns say."""
        found: list[str] = row[_CAUSES]
        return found
