"""How far two distributions are apart, from 0 to 1, and how likely chance alone makes such a distance (p).

The tests take rows for independent of each other. Rows that come in bursts are less so: then p is too small, and the
distance says more. Of rows that were chosen as whole clusters, such as blocks, `design_effect` tells how many rows they
stand for. Without random numbers: the same rows have the same answer.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]

_RARE = 5  # values with fewer rows are one
_MOST_TESTED = 10  # values of a column, those whose shares differ most


@dataclass(frozen=True)
class Difference:
    """Of one column.

    Attributes:
        distance: 0: the same distribution; 1: no value is on both sides.
        p: how likely chance makes a distance like this, or a larger one.
    """

    distance: float
    p: float


def effective(weights: Numbers) -> float:
    """How many rows of equal weight tell as much as rows with these weights (Kish)."""
    total = float(weights.sum())
    return total * total / float((weights * weights).sum()) if total else 0.0


def design_effect(has: Numbers, clusters: Numbers, weights: Numbers) -> float:
    """How many rows of chosen clusters tell as much as one of independent rows (Kish): at least 1.

    Args:
        has: whether each row has what is counted, shape (rows,).
        clusters: the number of each row's cluster, from 0.
    """
    total = float(weights.sum())
    share = float((weights * has).sum()) / total if total else 0.0
    if not 0 < share < 1:
        return 1.0
    sums = np.bincount(clusters, weights * (has - share))
    count = np.count_nonzero(np.bincount(clusters))
    if count < 2:
        return effective(weights)
    variance = float((sums * sums).sum()) * count / (count - 1) / (total * total)
    return max(1.0, variance * effective(weights) / (share * (1 - share)))


def of_categories(one: Numbers, other: Numbers, rows: tuple[float, float]) -> Difference:
    """The total variation distance of two distributions of values, less what chance is expected to add to it.

    p is Fisher's exact test, two-sided, of the value for which it is smallest, times the number of values (Bonferroni).

    Args:
        one: weight of each value on the first side, shape (values,); of the same values, `other` on the second.
        rows: how many rows the weights stand for on each side.
    """
    counts = np.array([_counts(one, rows[0]), _counts(other, rows[1])])
    sizes = counts.sum(axis=1)
    if not sizes.all():
        return Difference(0.0, 1.0)
    is_rare = counts.sum(axis=0) < _RARE
    kept = np.column_stack([counts[:, ~is_rare], counts[:, is_rare].sum(axis=1)])
    shares = kept / sizes[:, None]
    pooled = kept.sum(axis=0) / sizes.sum()
    # The mean of |difference| of two shares that are normally distributed around the same one.
    chance = np.sqrt(2 / np.pi * pooled * (1 - pooled) * (1 / sizes[0] + 1 / sizes[1]))
    apart, by_chance = float(np.abs(shares[0] - shares[1]).sum()) / 2, float(chance.sum()) / 2
    distance = math.sqrt(max(0.0, apart * apart - by_chance * by_chance))
    order = np.argsort(-np.abs(counts[0] / sizes[0] - counts[1] / sizes[1]), kind="stable")[:_MOST_TESTED]
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, int(sizes.sum()) + 1)))])
    least = min(_fisher(int(counts[0, at]), int(counts[:, at].sum()), int(sizes[0]), logs) for at in order.tolist())
    return Difference(min(1.0, distance), min(1.0, least * np.count_nonzero(counts.sum(axis=0))))


def farthest(one: Numbers, other: Numbers, weights: tuple[Numbers, Numbers]) -> tuple[float, float]:
    """The Kolmogorov-Smirnov distance of two samples, and the value up to which their shares differ by it."""
    values = np.concatenate([one, other])
    order = np.argsort(values, kind="stable")
    steps = np.concatenate([weights[0] / weights[0].sum(), -weights[1] / weights[1].sum()])[order]
    ends = np.flatnonzero(np.append(values[order][1:] != values[order][:-1], True))
    apart = np.abs(np.cumsum(steps)[ends])
    at = int(np.argmax(apart))
    return float(apart[at]), float(values[order][ends[at]])


def of_numbers(distance: float, rows: tuple[float, float]) -> Difference:
    """A Kolmogorov-Smirnov distance with its asymptotic p (Stephens' form).

    With values that occur several times, the test is careful: p is too large rather than too small.

    Args:
        rows: how many rows each sample stands for.
    """
    if not all(rows):
        return Difference(0.0, 1.0)
    root = math.sqrt(rows[0] * rows[1] / (rows[0] + rows[1]))
    return Difference(min(1.0, distance), _kolmogorov((root + 0.12 + 0.11 / root) * distance))


def quantiles(values: Numbers, weights: Numbers, shares: tuple[float, ...]) -> list[float]:
    """The values that these shares of the rows do not exceed; of no values, none."""
    if not len(values):
        return []
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array(shares) * reached[-1] * (1 - 1e-12))
    found: list[float] = values[order][np.minimum(places, len(values) - 1)].tolist()
    return found


def _counts(weights: Numbers, rows: float) -> Numbers:
    total = float(weights.sum())
    return np.rint(weights * (rows / total)).astype(np.int64) if total else np.zeros(len(weights), np.int64)


def _kolmogorov(scaled: float) -> float:
    """The tail of Kolmogorov's distribution."""
    if scaled < 0.2:
        return 1.0
    k = np.arange(1, 101)
    return min(1.0, max(0.0, float((2 * (-1.0) ** (k - 1) * np.exp(-2 * (k * scaled) ** 2)).sum())))


def _fisher(inside: int, both: int, size: int, logs: Numbers) -> float:
    """Twice the smaller tail of the hypergeometric distribution: `inside` of the `both` rows with a value are on a side
    with `size` rows.

    Args:
        logs: logarithms of factorials, of 0 to the number of all rows.
    """
    rows = len(logs) - 1
    lowest, highest = max(0, both + size - rows), min(both, size)
    k = np.arange(lowest, highest + 1)
    chances = (
        logs[both]
        - logs[k]
        - logs[both - k]
        + logs[rows - both]
        - logs[size - k]
        - logs[rows - both - size + k]
        - (logs[rows] - logs[size] - logs[rows - size])
    )
    each = np.exp(chances)
    at = inside - lowest
    return min(1.0, 2 * min(float(each[: at + 1].sum()), float(each[at:].sum())))
