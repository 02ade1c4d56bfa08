"""The rows that the user wants to see: those that meet the filter of `--where`."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from scope_bpf.catalogue.condition import Condition, columns_read
from scope_bpf.catalogue.stream import Stream
from scope_bpf.catalogue.where import filter_columns, read_filter
from scope_bpf.errors import InvalidFilter


class Choice:
    """A filter on the rows of several streams; no row of a stream without the filter's columns meets it.

    Args:
        where: the filter; empty: every row is wanted.

    Raises:
        InvalidFilter: the filter suits none of the streams.
    """

    def __init__(self, where: str, streams: Sequence[tuple[Stream, pa.Schema]]) -> None:
        self._conditions: dict[str, Condition] = {}
        self._where = where
        self._not_shown: list[str] = []
        refused: list[InvalidFilter] = []
        for stream, schema in streams if where else ():
            try:
                self._conditions[stream.name] = read_filter(where, filter_columns(stream, schema))
            except InvalidFilter as error:
                self._not_shown.append(stream.name)
                refused.append(error)
        if refused and not self._conditions:
            raise refused[0]

    def columns(self, stream: Stream, wanted: Collection[str] | None) -> Collection[str] | None:
        """The columns that have to be made, if these are wanted; None: all."""
        if wanted is None or stream.name not in self._conditions:
            return wanted
        return {*wanted, *columns_read(self._conditions[stream.name])}

    def notes(self) -> list[str]:
        """Which streams are not shown at all."""
        return [f"not shown, without a column of the filter: {', '.join(self._not_shown)}"] if self._not_shown else []

    def of(self, stream: Stream, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted."""
        if not self._where:
            return batch
        if stream.name not in self._conditions:
            return batch.slice(0, 0)
        from scope_bpf.capture.matching import matching

        return batch.filter(matching(self._conditions[stream.name], batch))
