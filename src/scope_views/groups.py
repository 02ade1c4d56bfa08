"""Rows by the values of several columns. Work is per batch and per group."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Group = tuple[Any, ...]


def groups_of(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[list[Group], Any]:
    """The combinations of values that a batch with rows has, and each row's place among them, shape (rows,)."""
    codes: Any = None  # one number a row
    values: list[list[Any]] = []  # what its digits stand for
    for name in names:
        column = batch[name] if pa.types.is_dictionary(batch[name].type) else batch[name].dictionary_encode()
        values.append([*column.dictionary.to_pylist(), None])
        digit = column.indices.fill_null(len(values[-1]) - 1).cast(pa.int64())
        codes = digit if codes is None else pc.add(pc.multiply(codes, len(values[-1])), digit)
    encoded = codes.dictionary_encode()
    return [_group(code, values) for code in encoded.dictionary.to_pylist()], encoded.indices.to_numpy()


def _group(code: int, values: list[list[Any]]) -> Group:
    group = []
    for digits in reversed(values):
        code, digit = divmod(code, len(digits))
        group.append(digits[digit])
    return tuple(reversed(group))
