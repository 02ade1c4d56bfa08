"""What is unusual about single rows: values that differ from those of most rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import TypedColumn
from scope_views.quantities import duration, size

_USUAL = 0.5  # the share of rows from which on a value is the usual one
_RARE = 0.05  # and the share up to which another value is unusual
_FAR = 2  # times the median: numbers that are larger, and larger than nearly all, are unusual
_FEW = 20  # whole numbers without a unit that have so few values are categories


@dataclass(frozen=True)
class Unusual:
    """A value of a row that most rows do not have.

    Attributes:
        usual: of numbers, the median; of other values, the one that most rows have.
        rarity: the share of the rows that have it, or a number as large.
    """

    column: str
    value: Any
    usual: Any
    sentence: str
    rarity: float


class Values:
    """The values that the rows of a sample have.

    Args:
        rows: with texts in place of keys.
        columns: that are looked at.
    """

    def __init__(self, rows: pa.Table, columns: Iterable[TypedColumn]) -> None:
        self._numbers: dict[str, tuple[TypedColumn, Any]] = {}
        self._texts: dict[str, tuple[TypedColumn, Any, Mapping[Any, float]]] = {}
        for column in columns if rows.num_rows else ():
            values = rows[column.name].combine_chunks()
            is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            counts = pc.value_counts(values)
            if is_number and (column.unit or pa.types.is_floating(values.type) or len(counts) > _FEW):
                if not column.hex:
                    numbers = np.sort(values.drop_null().cast(pa.float64(), safe=False).to_numpy())
                    self._numbers[column.name] = column, numbers
                continue
            shares = {each["values"]: each["counts"] / len(values) for each in counts.to_pylist()}
            usual = max(shares, key=lambda value: (shares[value], str(value)))
            if shares[usual] >= _USUAL:
                self._texts[column.name] = column, usual, shares

    def of(self, row: Mapping[str, Any]) -> list[Unusual]:
        """What is unusual about a row, the rarest first."""
        found = [each for name in self._numbers if (each := self._number(name, row.get(name)))]
        found += [each for name in self._texts if (each := self._text(name, row.get(name)))]
        return sorted(found, key=lambda each: (each.rarity, each.column))

    def _number(self, name: str, value: Any) -> Unusual | None:
        column, numbers = self._numbers[name]
        if value is None or not len(numbers):
            return None
        median = float(numbers[(len(numbers) - 1) // 2])
        rarity = float(len(numbers) - np.searchsorted(numbers, value)) / len(numbers)
        if rarity > _RARE or value <= _FAR * median:
            return None
        told, usual = amount(value, column.unit), amount(median, column.unit)
        return Unusual(name, value, median, f"{name} is {told}; usual is {usual}", rarity)

    def _text(self, name: str, value: Any) -> Unusual | None:
        column, usual, shares = self._texts[name]
        rarity = shares.get(value, 0.0)
        if value == usual or rarity > _RARE:
            return None
        told = [column.codes.shown(each) if column.codes and each is not None else each for each in (value, usual)]
        shown, most = ("absent" if each is None else str(each) for each in told)
        return Unusual(name, value, usual, f"{name} is {shown}; {shares[usual]:.0%} of rows have {most}", rarity)


def amount(value: float, unit: str) -> str:
    """A number with its unit, as people read it."""
    if unit == "ns":
        return duration(value)
    return size(value) if unit == "bytes" else f"{value:,.6g} {unit}".rstrip()
