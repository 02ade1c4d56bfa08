"""Marks texts whose rest was cut."""

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import Column


def cut_marked(texts: pa.Array, batch: pa.RecordBatch, name: str, column: Column) -> pa.Array:
    """The texts of a batch's column, with ... where the rest was cut."""
    if not column.cut_if:
        return texts
    values = batch[name]
    marked = (texts, "...") if pa.types.is_list(values.type) else ("...", texts)
    is_cut = pc.and_(values.is_valid(), pc.not_equal(batch[column.cut_if], 0))
    return pc.if_else(is_cut, pc.binary_join_element_wise(*marked, ""), texts)
