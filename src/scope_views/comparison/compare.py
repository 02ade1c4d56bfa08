"""Which columns of two samples differ most."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_views.comparison.statistics import (
    Difference,
    Numbers,
    design_effect,
    effective,
    farthest,
    of_categories,
    of_numbers,
    quantiles,
)

MOST_VALUES = 10  # of a column that are shown, those whose shares differ most
_FEW = 20  # whole numbers without a unit that have so few values are categories
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Compared:
    """A column, as people know it.

    Attributes:
        is_measured: the column has a unit, or fractions: its values are numbers even if they are few.
        is_code: its numbers are no quantities, such as flags: if they are many, the column is not compared.
    """

    name: str
    meaning: str = ""
    is_measured: bool = False
    is_code: bool = False


@dataclass(frozen=True)
class Value:
    """A value of a category with its share of the rows on each side; None: the value is absent."""

    value: Any
    inside: float
    outside: float


@dataclass(frozen=True)
class Differing:
    """A column that differs.

    Attributes:
        difference: of the distributions, 0 to 1.
        sure: how sure it is that chance does not make it, 0 to 1.
        values: of categories, those whose shares differ most.
        numbers: of numbers, quantiles inside and outside; None for categories.
    """

    column: Compared
    difference: float
    sure: float
    values: Sequence[Value]
    numbers: tuple[Mapping[str, float], Mapping[str, float]] | None

    @property
    def weight(self) -> float:
        """What columns are ordered by."""
        return self.difference * self.sure


def compared(
    inside: pa.Table, outside: pa.Table, columns: Iterable[Compared], *, weight: str = "", clusters: str = ""
) -> list[Differing]:
    """The columns that differ, first those whose difference, weighted by how sure it is, is largest.

    Columns of texts, and of few whole numbers without a unit, are categories: total variation distance, Fisher's exact
    test. Other numbers: Kolmogorov-Smirnov distance and test; absent ones are smaller than all. `sure` is 1 - p, with p
    times the number of columns (Bonferroni), so that among many columns chance finds none.

    Args:
        inside, outside: rows; both have all columns. Keys in place of texts are categories, too: of type int64 in a
            dictionary.
        weight: a column with what a row counts for, of summaries; empty: each row counts once.
        clusters: a column with the number of the cluster that a row was chosen with; empty: rows were chosen alone.
    """
    if not inside.num_rows or not outside.num_rows:
        return []
    sides = Side(inside, weight, clusters), Side(outside, weight, clusters)
    found = [each for column in columns if (each := _of_column(column, sides))]
    sure = [Differing(c, d.distance, max(0.0, 1 - d.p * len(found)), v, n) for c, d, v, n in found]
    return sorted((each for each in sure if each.difference > 0), key=lambda each: (-each.weight, each.column.name))


_Found = tuple[Compared, Difference, Sequence[Value], tuple[Mapping[str, float], Mapping[str, float]] | None]


class Side:
    """One side: its rows, what each counts for, and its cluster; see `compared` for the names of columns."""

    def __init__(self, rows: pa.Table, weight: str, clusters: str) -> None:
        self.rows, self.weight, self.cluster = rows, weight, clusters
        self.weights: Numbers = np.ones(rows.num_rows)
        if weight:
            self.weights = rows[weight].fill_null(0).cast(pa.float64()).to_numpy()
        self.clusters: Numbers | None = rows[clusters].to_numpy() if clusters else None


Sides = tuple[Side, Side]


def _of_column(column: Compared, sides: Sides) -> _Found | None:
    one, other = (side.rows[column.name].combine_chunks() for side in sides)
    if one.null_count == len(one) and other.null_count == len(other):
        return None
    is_number = pa.types.is_integer(one.type) or pa.types.is_floating(one.type)
    if is_number and (column.is_measured or pa.types.is_floating(one.type)):
        return _numbers(column, one, other, sides)
    both = pa.concat_arrays([_plain(one), _plain(other)]).dictionary_encode()
    if is_number and len(both.dictionary) > _FEW:
        return None if column.is_code else _numbers(column, one, other, sides)
    return _categories(column, both, sides)


def _categories(column: Compared, both: pa.Array, sides: Sides) -> _Found | None:
    values = [*both.dictionary.to_pylist(), None]
    every = both.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
    split = sides[0].rows.num_rows
    codes = every[:split], every[split:]
    sums = [
        np.bincount(its, side.weights, len(values)).astype(np.float64) for its, side in zip(codes, sides, strict=True)
    ]
    if np.count_nonzero(sums[0] + sums[1]) < 2:
        return None
    shares = [each / max(each.sum(), 1e-300) for each in sums]
    order = np.lexsort((np.arange(len(values)), -np.abs(shares[0] - shares[1])))[:MOST_VALUES]
    rows = independent_rows(sides, codes[0] == order[0], codes[1] == order[0])
    shown = [Value(values[at], float(shares[0][at]), float(shares[1][at])) for at in order.tolist()]
    return column, of_categories(sums[0], sums[1], rows), [one for one in shown if one.inside or one.outside], None


def _numbers(column: Compared, one: pa.Array, other: pa.Array, sides: Sides) -> _Found | None:
    both = [each.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for each in (one, other)]
    every = np.concatenate(both)
    present = every[~np.isnan(every)]
    if not len(present) or (len(present) == len(every) and present.min() == present.max()):
        return None
    told = []
    for values, side in zip(both, sides, strict=True):
        there = ~np.isnan(values)
        found = quantiles(values[there], side.weights[there], (*_QUANTILES.values(),))
        told.append(dict(zip(_QUANTILES, found, strict=False)))
    below = [np.where(np.isnan(values), -np.inf, values) for values in both]
    distance, at = farthest(below[0], below[1], (sides[0].weights, sides[1].weights))
    rows = independent_rows(sides, below[0] <= at, below[1] <= at)
    return column, of_numbers(distance, rows), [], (told[0], told[1])


def independent_rows(sides: Sides, *has: Numbers) -> tuple[float, float]:
    """How many independent rows each side stands for, by the larger design effect of both.

    Args:
        has: of each side, whether its rows have what is compared.
    """
    effect = max(
        design_effect(its, side.clusters, side.weights) if side.clusters is not None else 1.0
        for its, side in zip(has, sides, strict=True)
    )
    one, other = (effective(side.weights) / effect for side in sides)
    return one, other


def _plain(values: pa.Array) -> pa.Array:
    """Without a dictionary, so that both sides have one."""
    return pc.cast(values, values.type.value_type) if pa.types.is_dictionary(values.type) else values
