"""The tables of some streams: one batch at a time is added to all that show its stream."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import AnyTable, LatestRows, SlowestRows, Table
from scope_catalogue.tables import Inclusive as InclusiveCell
from scope_views.tables.aggregate import Aggregate
from scope_views.tables.inclusive import Inclusive
from scope_views.tables.latest import Latest
from scope_views.tables.slowest import Slowest

View = Aggregate | Latest | Slowest


class Tables:
    """What the tables of some streams show.

    Args:
        by: the columns that make a group in the tables of every stream that has them; empty: as each stream says.

    Attributes:
        views: a view per table.

    Raises:
        InvalidView: a stream's description is not valid.
    """

    def __init__(self, streams: Sequence[DescribedStream], by: tuple[str, ...] = ()) -> None:
        self.views = [_view(stream, table, by) for stream in streams for table in stream.shown.tables]

    def columns(self, stream: DescribedStream) -> set[str]:
        """The columns of a stream that its tables read."""
        return {name for view in self._of(stream) for name in view.columns}

    def add(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Adds a batch, which may have more columns."""
        for view in self._of(stream):
            view.add(batch)

    def _of(self, stream: DescribedStream) -> list[View]:
        return [view for view in self.views if view.stream.name == stream.name]


def takes_groups(stream: DescribedStream) -> bool:
    """Whether the tables of a stream can have other groups. States have groups of their own."""
    return stream.latest is None and any(isinstance(table, Table) for table in stream.shown.tables)


def _view(stream: DescribedStream, table: AnyTable, by: tuple[str, ...]) -> View:
    match table:
        case LatestRows():
            return Latest(stream, table)
        case SlowestRows():
            return Slowest(stream, table)
    if by and takes_groups(stream) and stream.by_name.keys() >= {*by}:
        table = replace(table, by=by)
    fitting = (cell for cell in table.cells if not isinstance(cell, InclusiveCell) or cell.of in table.by)
    table = replace(table, cells=tuple(fitting))
    if any(isinstance(cell, InclusiveCell) for cell in table.cells):
        return Inclusive(stream, table)
    return Aggregate(stream, table)
