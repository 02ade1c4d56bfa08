"""Rows as CSV (RFC 4180): commas, quotes where needed, CRLF.

Control characters in texts are escaped, so that each row is a line. Spreadsheets take a text that begins with =, +, -
or @ for a formula: such a text gets an apostrophe before it. Numbers stay as they are. Lists are JSON.
"""

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from scope_views.printable import printable
from scope_views.times import TIME, rfc3339

_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last ones are as wide as a Chinese sign


def csv(batch: pa.RecordBatch, head: bool) -> bytes:
    """A line per row; with `head`, the names of the columns come first."""
    import polars  # noqa: PLC0415  # takes 0.3 s and 33 MB, which only who reads rows has to pay

    columns = [_plain(column) for column in batch.columns]
    frame: Any = polars.from_arrow(pa.Table.from_arrays(columns, names=batch.schema.names))
    lines = io.BytesIO()
    frame.write_csv(lines, include_header=head, line_terminator="\r\n")
    return lines.getvalue()


def harmless(text: str) -> str:
    """A text as a cell: one line, and no formula."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULAS) else shown


def _plain(column: pa.Array) -> pa.Array:
    if column.type == TIME.type:
        return rfc3339(column)
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        return _lists(column)
    if pa.types.is_binary(column.type):
        column = pa.array([None if one is None else base64.b64encode(one).decode() for one in column.to_pylist()])
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        return _each(column, harmless)
    return column


def _lists(column: pa.Array) -> pa.Array:
    lists = column.cast(pa.list_(column.type.value_type))
    values = lists.flatten()
    if pa.types.is_string(values.type):
        texts = _each(values, lambda text: json.dumps(printable(text), ensure_ascii=False))
    else:
        texts = values.cast(pa.string())
    lengths = pc.list_value_length(lists).fill_null(0)
    offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], lengths.type), lengths])).cast(pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts.fill_null("null")), ",")
    return pc.if_else(lists.is_valid(), pc.binary_join_element_wise("[", joined, "]", ""), None)


def _each(column: pa.Array, changed: Callable[[str], str]) -> pa.Array:
    """The texts, changed once per distinct one."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = pa.array([changed(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)
