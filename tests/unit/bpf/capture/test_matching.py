"""A filter's mask for a batch: the rows that the same filter takes in plain Python, whatever the columns' types."""

import random

import pyarrow as pa
import pytest
from tests.random_filters import SCHEMA, every_comparison, random_filter, random_rows

from scope_bpf.capture.matching import matching
from scope_bpf.catalogue.condition import columns_read
from scope_bpf.catalogue.literal import column_type
from scope_bpf.catalogue.where import read_filter

COLUMNS = {field.name: column_type(field.type) for field in SCHEMA}


def test_each_comparison_takes_the_rows_that_it_says() -> None:
    """Every operator, with every kind of column, and nulls, bounds of 64 bits, NaN, quotes, % and backslashes."""
    rows = random_rows(random.Random(11), 211)
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    for one in every_comparison():
        mask = matching(read_filter(one.text, COLUMNS), batch)
        assert mask.to_pylist() == [one.takes(row) for row in rows], one.text


@pytest.mark.parametrize("seed", range(13))
def test_comparisons_are_joined(seed: int) -> None:
    """`and`, `or` and `not` of them, with nulls between true and false, as in SQL."""
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
    """Of no length; a dictionary without values is no error."""
    batch = pa.RecordBatch.from_pylist([], schema=SCHEMA)
    condition = read_filter("comm ~ 'a*' and unsigned > 5 or not flag = true", COLUMNS)
    assert batch.filter(matching(condition, batch)).num_rows == 0


def test_each_distinct_text_is_matched_once() -> None:
    """A dictionary of three values is enough for a million rows: no text of a row is made."""
    indices = pa.array([0, 1, None, 2] * 250_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["git", "cat", "gitk"]))
    batch = pa.RecordBatch.from_arrays([column], ["comm"])
    before = pa.total_allocated_bytes()
    mask = matching(read_filter("comm ~ 'git*'", {"comm": COLUMNS["comm"]}), batch)
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert mask.true_count == 500_000
