"""Applies a filter to a batch: column by column, and once per distinct value of a dictionary column."""

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.condition import And, Condition, IsNull, Matches, Not, OneOf, Or, Ordered

_ORDERS: dict[str, Callable[[pa.Array, pa.Scalar], pa.BooleanArray]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matching(condition: Condition, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """The rows of a batch or table that meet a condition, as a mask for its `filter`: boolean, shape (rows,), no nulls.

    Args:
        condition: from `read_filter`; the batch must have the columns that it reads (`columns_read`).
    """
    return _truth(condition, batch).fill_null(False)


def _truth(condition: Condition, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """The condition for each row: true, false or null."""
    match condition:
        case Not(term):
            return pc.invert(_truth(term, batch))
        case And(terms):
            return reduce(pc.and_kleene, (_truth(term, batch) for term in terms))
        case Or(terms):
            return reduce(pc.or_kleene, (_truth(term, batch) for term in terms))
        case _:
            return _of_column(condition, batch[condition.column])


def _of_column(condition: OneOf | Ordered | Matches | IsNull, column: pa.Array) -> pa.BooleanArray:
    if pa.types.is_dictionary(column.type):
        if isinstance(condition, IsNull):
            return column.is_null()
        return _of_column(condition, column.dictionary).take(column.indices)
    if pa.types.is_floating(column.type):
        column = pc.add(
            pc.if_else(pc.is_nan(column), None, column), 0.0
        )  # makes 0.0 of -0.0: `is_in` takes them for different
    match condition:
        case IsNull():
            return column.is_null()
        case Matches(_, pattern):
            return pc.match_like(column, pattern)
        case Ordered(_, operator, value):
            return _ORDERS[operator](column, pa.scalar(value, column.type))
        case OneOf(_, values):
            found = pc.is_in(column, value_set=pa.array(values, column.type))
            return pc.if_else(column.is_valid(), found, None)
