"""The tables of some streams: one batch at a time is added to all that show its stream."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from scope_catalogue.shown import Live
from scope_catalogue.stream import DescribedStream
from scope_views.tables.aggregate import Aggregate
from scope_views.tables.inclusive import Inclusive
from scope_views.tables.slowest import Slowest


class Tables:
    """What the tables of some streams show.

    Args:
        by: the columns that make a group in the tables of every stream that has them; empty: as each stream says.
    """

    def __init__(self, streams: Sequence[DescribedStream], by: tuple[str, ...] = ()) -> None:
        self.aggregates = [
            _aggregate(stream, live if live.slowest else _grouped(stream, live, by))
            for stream in streams
            for live in stream.shown.tables
        ]

    def columns(self, stream: DescribedStream) -> set[str]:
        """The columns of a stream that its tables read."""
        return {name for aggregate in self._of(stream) for name in aggregate.columns}

    def add(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Adds a batch, which may have more columns."""
        for aggregate in self._of(stream):
            aggregate.add(batch)

    def _of(self, stream: DescribedStream) -> list[Aggregate]:
        return [aggregate for aggregate in self.aggregates if aggregate.stream.name == stream.name]


def takes_groups(stream: DescribedStream) -> bool:
    """Whether the tables of a stream can have other groups. States have groups of their own."""
    return any(live.by for live in stream.shown.tables[:1]) and not stream.gauge


def _aggregate(stream: DescribedStream, live: Live) -> Aggregate:
    if live.slowest:
        return Slowest(stream, live)
    return Inclusive(stream, live) if live.inclusive and "function" in live.by else Aggregate(stream, live)


def _grouped(stream: DescribedStream, live: Live, by: tuple[str, ...]) -> Live:
    has = by and takes_groups(stream) and stream.by_name.keys() >= {*by}
    return replace(live, by=by) if has and live.by else live
