"""The values of a table's cells: those of each group of a batch, and what two of them make together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import DescribedStream
from scope_catalogue.tables import Cell, Count, Failed, Inclusive, Quantiles, Rate, Share, Sum
from scope_views.chosen import Chosen
from scope_views.tables.durations import Durations


@dataclass
class Ratio:
    """An amount and the ns that it took."""

    amount: int = 0
    ns: int = 0

    @property
    def per_second(self) -> float | None:
        """The amount per second; None: there is no time."""
        return self.amount / (self.ns / 1e9) if self.ns else None


Value = int | float | str | None | Durations | Ratio


class CellValues:
    """Computes cells of a stream's table.

    A cell's value is a number, None where no row has one; the cells of `Quantiles` have `Durations`, of `Rate` a
    `Ratio`.

    Raises:
        InvalidView: a filter does not suit the stream.
    """

    def __init__(self, stream: DescribedStream, cells: tuple[Cell, ...]) -> None:
        self._stream, self.cells = stream, cells
        self._failed = Chosen(stream, stream.failed)
        self._rated = {cell: Chosen(stream, cell.where) for cell in cells if isinstance(cell, Rate)}

    @property
    def columns(self) -> set[str]:
        """The columns that the cells read."""
        found: set[str] = set()
        for cell in self.cells:
            match cell:
                case Failed():
                    found |= {stream.failures} if (stream := self._stream).failures else self._failed.columns
                case Sum(column):
                    found |= {column} | (self._failed.columns if self._leaves_out_failed(column) else set())
                case Share(column) | Quantiles(column):
                    found.add(column)
                case Rate(amount, duration):
                    found |= {amount, duration} | self._rated[cell].columns
                case Inclusive(stack, column, of):
                    found |= {stack, column, of} - {""}
        return found

    def _leaves_out_failed(self, column: str) -> bool:
        # A call that failed moved no bytes; those of a summary's row are of its other events.
        stream = self._stream
        return bool(stream.failed) and not stream.failures and stream.by_name[column].unit == "bytes"

    def by_group(self, batch: pa.RecordBatch, places: Any, count: int) -> list[list[Any]]:
        """The values of each cell, then of each group.

        Args:
            places: each row's group, shape (rows,).
            count: how many groups there are.
        """
        return [self._of_cell(cell, batch, places, count) for cell in self.cells]

    def _of_cell(  # noqa: PLR0911  # one return for each kind of cell
        self, cell: Cell, batch: pa.RecordBatch, places: Any, count: int
    ) -> list[Any]:
        match cell:
            case Count():
                return _whole(np.bincount(places, None, count))
            case Failed() if self._stream.failures:
                return _whole(np.bincount(places, batch[self._stream.failures].fill_null(0), count))
            case Failed():
                return _whole(np.bincount(places, self._failed.mask(batch), count))
            case Sum(column):
                return self._sums(column, batch, places, count)
            case Share(column):
                return _whole(np.bincount(places, batch[column].fill_null(0), count))
            case Quantiles(column):
                return list(Durations.by_group(batch[column], places, count))
            case Rate(amount, duration):
                chosen = self._rated[cell].mask(batch)
                parts = (pc.if_else(chosen, batch[name], 0).fill_null(0) for name in (amount, duration))
                sums = (_whole(np.bincount(places, part, count)) for part in parts)
                return [Ratio(*pair) for pair in zip(*sums, strict=True)]
            case Inclusive():
                return [None] * count

    def _sums(self, column: str, batch: pa.RecordBatch, places: Any, count: int) -> list[int | None]:
        values = batch[column]
        known = np.bincount(places, values.is_valid(), count) > 0
        amounts = values.fill_null(0)
        if self._leaves_out_failed(column):
            amounts = pc.if_else(self._failed.mask(batch), 0, amounts)
        sums = _whole(np.bincount(places, amounts, count))
        return [one if is_known else None for one, is_known in zip(sums, known.tolist(), strict=True)]

    def empty(self) -> list[Any]:
        """The values of no rows."""
        kinds = {Quantiles: Durations, Rate: Ratio}
        return [kinds[type(cell)]() if type(cell) in kinds else None for cell in self.cells]

    def add(self, values: list[Any], others: list[Any]) -> None:
        """Adds the values of other rows."""
        for index, other in enumerate(others):
            match other:
                case Durations():
                    values[index].add(other)
                case Ratio():
                    values[index] = Ratio(values[index].amount + other.amount, values[index].ns + other.ns)
                case None:
                    pass
                case _:
                    values[index] = (values[index] or 0) + other


def _whole(values: Any) -> list[int]:
    return [int(value) for value in values.tolist()]
