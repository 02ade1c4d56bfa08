"""The latest rows of a stream."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import LatestRows
from scope_views.chosen import check_columns

MOST_ROWS = 12


class Latest:
    """What a table of the latest rows shows.

    Attributes:
        rows: the latest ones, in order of time.
        count: of all rows.

    Raises:
        InvalidView: the stream lacks a column.
    """

    def __init__(self, stream: DescribedStream, table: LatestRows) -> None:
        self.stream, self.table = stream, table
        self.rows: list[dict[str, Any]] = []
        self.count = 0
        check_columns(stream, table.columns)
        flags = (stream.by_name[name].cut_if for name in table.columns)
        self._read = list(dict.fromkeys(("ktime_ns", *table.columns, *filter(None, flags))))

    @property
    def columns(self) -> set[str]:
        """The columns it reads."""
        return {*self._read}

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of the stream; it needs no more than `columns`."""
        self.count += batch.num_rows
        newest = batch.take(pc.sort_indices(batch["ktime_ns"])[-MOST_ROWS:]).select(self._read).to_pylist()
        self.rows = sorted((*self.rows, *newest), key=lambda row: int(row["ktime_ns"]))[-MOST_ROWS:]
