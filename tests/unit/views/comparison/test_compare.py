"""Columns of two samples: the made difference is first, chance is not sure, and every type of column is compared."""

from typing import Any

import numpy as np
import pyarrow as pa

from scope_views.comparison.compare import Compared, compared

ROWS = 2003
NAMES = np.array(["read", "write", "futex"])


def rows(seed: int, **changed: Any) -> pa.Table:
    chance = np.random.default_rng(seed)
    columns = {
        "name": NAMES[chance.integers(0, 3, ROWS)],
        "ns": chance.exponential(1000, ROWS).astype(np.uint64),
        "flag": chance.integers(0, 2, ROWS),
        "ratio": chance.random(ROWS),
        "text": [f"/tmp/{number}" for number in chance.integers(0, 1 << 40, ROWS)],
        "bits": chance.integers(0, 1 << 40, ROWS),
        "same": np.ones(ROWS, np.int64),
        "none": pa.nulls(ROWS, pa.string()),
        "count": np.ones(ROWS, np.int64),
        "block": np.arange(ROWS) // 50,
    }
    return pa.table(columns | changed)


COLUMNS = [
    Compared("name"),
    Compared("ns", is_measured=True),
    Compared("flag"),
    Compared("ratio"),
    Compared("text"),
    Compared("bits", is_code=True),
    Compared("same"),
    Compared("none"),
]


def test_equal_samples_have_nothing_sure() -> None:
    """Of ten pairs, no column is surer than 99 %."""
    for seed in range(10):
        assert [each for each in compared(rows(seed), rows(seed + 100), COLUMNS) if each.sure > 0.99] == []


def test_a_made_difference_is_first() -> None:
    """Of each type: text, key, number, flag, fraction, absent values."""
    changes: dict[str, Any] = {
        "name": np.where(np.arange(ROWS) % 2, "read", "fsync"),
        "ns": np.arange(ROWS, dtype=np.uint64) * 1000,
        "flag": np.ones(ROWS, np.int64),
        "ratio": np.linspace(0.4, 0.6, ROWS),
        "text": ["/var/slow"] * ROWS,
        "none": ["here"] * ROWS,
    }
    for name, values in changes.items():
        (first, *others) = compared(rows(1, **{name: values}), rows(2), COLUMNS)
        assert (first.column.name, first.sure > 0.999) == (name, True)
        assert all(other.sure < 0.99 for other in others)


def test_values_and_numbers() -> None:
    """Categories have the shares of their values, numbers their quantiles."""
    found = {each.column.name: each for each in compared(rows(1, name=["sync"] * ROWS), rows(2), COLUMNS)}
    (first, *_) = found["name"].values
    assert (first.value, first.inside, first.outside, found["name"].numbers) == ("sync", 1, 0, None)
    found = {each.column.name: each for each in compared(rows(1, ns=np.full(ROWS, 7, np.uint64)), rows(2), COLUMNS)}
    assert found["ns"].numbers is not None
    assert found["ns"].numbers[0] == {"p50": 7, "p90": 7, "p99": 7}
    assert list(found["ns"].values) == []


def test_what_is_not_compared() -> None:
    """Constant and absent columns, and codes of many values."""
    names = {each.column.name for each in compared(rows(1, ns=np.arange(ROWS)), rows(2), COLUMNS)}
    assert not names & {"same", "none", "bits"}


def test_keys_are_categories() -> None:
    """Whole numbers in a dictionary are keys of texts, however many."""
    keys = pa.array(np.arange(ROWS) % 100 + (1 << 33)).dictionary_encode()
    others = pa.array(np.arange(ROWS) % 100 + (1 << 34)).dictionary_encode()
    (first, *_) = compared(rows(1, name=keys), rows(2, name=others), COLUMNS)
    assert (first.column.name, first.numbers, len(first.values)) == ("name", None, 10)


def test_absent_numbers_are_a_difference() -> None:
    """A number that only one side's rows have."""
    some = pa.array([None if number % 2 else 5 for number in range(ROWS)], pa.int64())
    (first, *_) = compared(rows(1, ns=some), rows(2, ns=np.full(ROWS, 5)), COLUMNS)
    assert first.column.name == "ns"
    assert 0.45 < first.difference < 0.55


def test_rows_count_for_their_weight() -> None:
    """Of summaries: rare rows that count for much have a large share."""
    heavy = np.where(np.arange(ROWS) % 2, 1, 99)
    one = rows(1, name=np.where(np.arange(ROWS) % 2, "read", "write"), count=heavy)
    other = rows(2, name=np.where(np.arange(ROWS) % 2, "read", "write"))
    (first, *_) = compared(one, other, [Compared("name")], weight="count")
    assert {value.value: round(value.inside, 2) for value in first.values} == {"write": 0.99, "read": 0.01}


def test_clusters_are_less_sure() -> None:
    """What differs only because whole blocks were chosen is not sure."""
    of_blocks = [f"node-{number // 50 % 5}" for number in range(ROWS)]
    others = [f"node-{number // 50 % 4}" for number in range(ROWS)]
    arguments = rows(1, name=of_blocks), rows(2, name=others), [Compared("name")]
    (alone,), clustered = compared(*arguments), compared(*arguments, clusters="block")
    assert alone.sure > 0.999
    assert all(each.sure < 0.999 for each in clustered)


def test_the_same_rows_have_the_same_answer() -> None:
    """And no rows have none."""
    assert compared(rows(1), rows(2), COLUMNS) == compared(rows(1), rows(2), COLUMNS)
    assert compared(rows(1).slice(0, 0), rows(2), COLUMNS) == []
