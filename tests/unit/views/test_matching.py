"""A filter's mask for a batch selects the same rows as the filter in plain Python, for all column types."""

import random

import pyarrow as pa
import pytest
from tests.random_filters import SCHEMA, every_comparison, random_filter, random_rows

from scope_catalogue.condition import columns_read
from scope_catalogue.literal import column_type
from scope_catalogue.where import read_filter
from scope_views.matching import matching

COLUMNS = {field.name: column_type(field.type) for field in SCHEMA}


def test_each_comparison_takes_the_rows_that_it_says() -> None:
    """Each operator selects the right rows in each type of column, with nulls, NaN, 64-bit bounds and odd texts."""
    rows = random_rows(random.Random(11), 211)
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    for one in every_comparison():
        mask = matching(read_filter(one.text, COLUMNS), batch)
        assert mask.to_pylist() == [one.takes(row) for row in rows], one.text


@pytest.mark.parametrize("seed", range(13))
def test_comparisons_are_joined(seed: int) -> None:
    """`and`, `or` and `not` treat nulls as SQL does. `columns_read` names all columns that a filter needs."""
    chance = random.Random(seed)
    rows = random_rows(chance, 101)
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    leaves = every_comparison()
    for _ in range(53):
        one = random_filter(chance, leaves)
        condition = read_filter(one.text, COLUMNS)
        assert matching(condition, batch).to_pylist() == [one.takes(row) for row in rows], one.text
        narrow = batch.select([name for name in SCHEMA.names if name in columns_read(condition)])
        assert matching(condition, narrow) == matching(condition, batch)


def test_a_batch_without_rows_has_a_mask() -> None:
    """The mask of an empty batch is empty; a dictionary without values is no error."""
    batch = pa.RecordBatch.from_pylist([], schema=SCHEMA)
    condition = read_filter("comm ~ 'a*' and unsigned > 5 or not flag = true", COLUMNS)
    assert batch.filter(matching(condition, batch)).num_rows == 0


def test_each_distinct_text_is_matched_once() -> None:
    """A pattern is matched once per value of a dictionary: a million rows with three texts need less than 1 MB."""
    indices = pa.array([0, 1, None, 2] * 250_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["git", "cat", "gitk"]))
    batch = pa.RecordBatch.from_arrays([column], ["comm"])
    before = pa.total_allocated_bytes()
    mask = matching(read_filter("comm ~ 'git*'", {"comm": COLUMNS["comm"]}), batch)
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert mask.true_count == 500_000
