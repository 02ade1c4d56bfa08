"""Columns in messages of the local bus: numbers as binary arrays, texts as distinct texts and an array of indices.

So a program needs no Arrow, and no Python object is made per row. A column is a map:

    numbers, bool   {"data": little-endian values; a bool is a byte}
    text            {"texts": distinct texts, "data": int32 indices}; the text of an absent value is nil
    list<TYPE>      {"ends": uint32, where each row's list ends in the items, "items": the items, a column of TYPE}

If numbers or lists are absent in some rows, `absent` has a byte per row, which is 1 there; the value is 0 or empty.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Column = dict[str, Any]


def type_name(kind: pa.DataType) -> str:
    """The name of a type in messages: text, list<...>, or as numpy names it."""
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return "text"
    if _is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    return str(np.dtype(kind.to_pandas_dtype()).name)


def packed(values: pa.Array) -> Column:
    """A column of a message."""
    kind = values.type
    if type_name(kind) == "text":
        return _packed_texts(values)
    if _is_list(kind):
        ends = pc.cumulative_sum(pc.list_value_length(values).fill_null(0).cast(pa.uint32()))
        column = {"ends": _bytes_of(ends), "items": packed(values.flatten())}
    elif pa.types.is_boolean(kind):
        column = {"data": _bytes_of(values.fill_null(False).cast(pa.uint8()))}
    else:
        column = {"data": _bytes_of(values.fill_null(0) if values.null_count else values)}
    return column | ({"absent": _bytes_of(values.is_null().cast(pa.uint8()))} if values.null_count else {})


def _packed_texts(values: pa.Array) -> Column:
    if pa.types.is_dictionary(values.type):  # of a whole batch: these rows may use a few of its texts
        encoded = values.indices.dictionary_encode()
        distinct = values.dictionary.take(encoded.dictionary)
    else:
        encoded = values.dictionary_encode()
        distinct = encoded.dictionary
    texts, indices = distinct.to_pylist(), encoded.indices
    if indices.null_count:
        indices = indices.fill_null(len(texts))
        texts.append(None)
    return {"texts": texts, "data": _bytes_of(indices)}


def _bytes_of(numbers: pa.Array) -> memoryview:
    return np.ascontiguousarray(numbers.to_numpy()).data.cast("B")


def unpacked(column: Column, name: str) -> pa.Array:
    """The values of a column of the type `name`; texts are strings.

    Raises:
        KeyError, TypeError, ValueError, pyarrow.ArrowException: this is no column of this type.
    """
    absent = np.frombuffer(column["absent"], bool) if "absent" in column else None
    if name == "text":
        return pa.array(column["texts"], pa.string()).take(pa.array(np.frombuffer(column["data"], np.int32)))
    if name.startswith("list<"):
        ends = np.concatenate(([0], np.frombuffer(column["ends"], np.uint32))).astype(np.int32)
        items = unpacked(column["items"], name.removeprefix("list<").removesuffix(">"))
        mask = None if absent is None else pa.array(absent)
        return pa.ListArray.from_arrays(pa.array(ends), items, mask=mask)
    return pa.array(np.frombuffer(column["data"], name), mask=absent)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))
