"""Distances of distributions and their tests, against values from tables and against chance itself."""

import numpy as np
import pytest

from scope_views.comparison.statistics import (
    design_effect,
    effective,
    farthest,
    of_categories,
    of_numbers,
    quantiles,
)

RANDOM = np.random.default_rng(20_261_126)


def counts(*values: int) -> np.ndarray:
    return np.array(values, np.float64)


def test_fishers_exact_test() -> None:
    """The table [[1, 9], [11, 3]], whose p is 0.002759 (Wikipedia, "Fisher's exact test"), for two values."""
    assert of_categories(counts(1, 11), counts(9, 3), (12, 12)).p == pytest.approx(2 * 0.002759, rel=1e-3)


def test_kolmogorovs_distribution() -> None:
    """Its 5 % point is 1.3581, its 1 % point 1.6276."""
    for scaled, p in ((1.3581, 0.05), (1.6276, 0.01)):
        assert of_numbers(scaled / 1000, (2e6, 2e6)).p == pytest.approx(p, rel=2e-3)


def test_values_that_are_on_one_side_only() -> None:
    """Different values are as far apart as can be, and surely so; equal ones are not apart."""
    found = of_categories(counts(1000, 0), counts(0, 1000), (1000, 1000))
    assert found.distance > 0.98 and found.p < 1e-100
    found = of_categories(counts(500, 500), counts(500, 500), (1000, 1000))
    assert (found.distance, found.p) == (0, 1)


def test_few_rows_against_many() -> None:
    """Twelve rows that all have what one in a hundred others has are enough to be sure."""
    found = of_categories(counts(12, 0), counts(100, 9900), (12, 10_000))
    assert found.distance > 0.9 and found.p < 1e-9


def test_many_rare_values_are_no_difference() -> None:
    """If no value occurs twice, two samples have no value in common, which says nothing."""
    one, other = np.repeat(counts(1, 0), 5000), np.repeat(counts(0, 1), 5000)
    found = of_categories(one, other, (5000, 5000))
    assert (found.distance, found.p) == (0, 1)


def test_chance_finds_as_often_as_p_says() -> None:
    """Of 200 pairs of equal samples, p is below 5 % in few: for numbers, categories, and clusters of rows."""
    below = {"numbers": 0, "categories": 0, "clusters": 0}
    ones = np.ones(500)
    for _ in range(200):
        one, other = RANDOM.exponential(size=500), RANDOM.exponential(size=500)
        below["numbers"] += of_numbers(farthest(one, other, (ones, ones))[0], (500, 500)).p < 0.05
        kinds = [np.bincount(RANDOM.integers(0, 20, 500), minlength=20).astype(float) for _ in range(2)]
        below["categories"] += of_categories(kinds[0], kinds[1], (500, 500)).p < 0.05
        clusters = np.repeat(np.arange(50), 10)
        has = [np.repeat(RANDOM.random(50) < 0.3, 10) for _ in range(2)]
        rows = 500 / max(design_effect(each, clusters, ones) for each in has)
        sums = [np.array([each.sum(), 500.0 - each.sum()]) for each in has]
        below["clusters"] += of_categories(sums[0], sums[1], (rows, rows)).p < 0.05
    assert all(count <= 20 for count in below.values()), below


def test_weights() -> None:
    """Rows of equal weight tell as much as rows; one heavy row tells as much as one."""
    assert effective(np.ones(7) * 3) == pytest.approx(7)
    assert effective(np.array([1e9, 1, 1])) == pytest.approx(1, rel=1e-6)
    assert effective(np.zeros(3)) == 0


def test_design_effect() -> None:
    """Rows that are the same within their cluster tell as much as one; a single cluster tells as much as one row."""
    clusters, ones = np.repeat(np.arange(40), 25), np.ones(1000)
    assert design_effect(clusters % 2 == 0, clusters, ones) == pytest.approx(25, rel=0.05)
    assert design_effect(np.arange(1000) % 2 == 0, clusters, ones) == 1
    assert design_effect(np.arange(1000) % 2 == 0, np.zeros(1000, int), ones) == 1000


def test_quantiles() -> None:
    """Of values and their weights; of none, none."""
    assert quantiles(np.arange(1, 101), np.ones(100), (0.5, 0.9, 0.99)) == [50, 90, 99]
    assert quantiles(np.array([1, 2]), np.array([9, 1]), (0.5, 0.9, 0.99)) == [1, 1, 2]
    assert quantiles(np.array([]), np.array([]), (0.5,)) == []
