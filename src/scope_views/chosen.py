"""Which rows a view is about, by a filter such as `draft = 0`."""

from collections.abc import Iterable

import pyarrow as pa

from scope_catalogue.condition import columns_read
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.nearest import unknown
from scope_catalogue.stream import DescribedStream
from scope_catalogue.where import read_filter
from scope_views.errors import InvalidView
from scope_views.matching import matching


class Chosen:
    """The rows of a stream that a filter selects.

    Args:
        where: the filter; empty: all rows.

    Raises:
        InvalidView: the filter does not suit the stream.
    """

    def __init__(self, stream: DescribedStream, where: str) -> None:
        try:
            self._condition = read_filter(where, stream.types) if where else None
        except InvalidFilter as error:
            raise InvalidView(f"how stream '{stream.name}' is shown is not valid: {error}") from None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the filter reads."""
        return columns_read(self._condition) if self._condition else frozenset()

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether each row is selected."""
        if self._condition is None:
            return pa.repeat(pa.scalar(True), batch.num_rows)
        return matching(self._condition, batch)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The selected rows."""
        return batch.filter(matching(self._condition, batch)) if self._condition else batch


def check_columns(stream: DescribedStream, names: Iterable[str]) -> None:
    """Checks that the stream has these columns.

    Raises:
        InvalidView: it lacks one.
    """
    for name in names:
        if name not in stream.by_name:
            lacking = unknown("column", name, stream.by_name)
            raise InvalidView(f"how stream '{stream.name}' is shown is not valid: {lacking}")
