"""Converts lists to PostgreSQL's binary format, a whole column at a time; the driver would convert each element.

The format is that of `array_recv` and the element types' receive functions (PostgreSQL: src/backend/utils/adt/
arrayfuncs.c, int8.c, timestamp.c and others): the number of dimensions, a flag for null elements, the element type's
oid, the dimension's length and lower bound, each with 32 bits. Then each element follows, after its length; a null has
only the length -1. Numbers are big-endian.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Integers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

_EPOCH_US = 946_684_800_000_000  # PostgreSQL counts timestamps from 2000-01-01; here since 1970
_MOMENT = pa.timestamp("us", "UTC")
# By Arrow type: oid (PostgreSQL: src/include/catalog/pg_type.dat) and the format of an element.
_FIXED = {
    pa.bool_(): (16, "u1"),
    pa.int16(): (21, ">i2"),
    pa.int32(): (23, ">i4"),
    pa.int64(): (20, ">i8"),
    pa.float32(): (700, ">f4"),
    pa.float64(): (701, ">f8"),
    _MOMENT: (1184, ">i8"),
}
_VARIABLE = {pa.string(): 25, pa.binary(): 17}
_NOTHING = pa.scalar(0, pa.int64())  # placeholder for null elements


def with_arrays(rows: pa.Table) -> pa.Table:
    """The rows with each list column converted to pa.binary(), which the driver sends unchanged.

    Raises:
        KeyError: the type of a list's elements is not supported.
    """
    for place, field in enumerate(rows.schema):
        if pa.types.is_list(field.type):
            rows = rows.set_column(place, field.name, _arrays(rows.column(place).combine_chunks()))
    return rows


def _arrays(lists: pa.ListArray) -> pa.Array:
    borders, values = _flat(lists)
    null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if values.type in _VARIABLE:
        oid, (ends, body) = _VARIABLE[values.type], _texts(values, borders)
    elif null is not None:
        oid, (ends, body) = _FIXED[values.type][0], _numbers_or_null(values, null, borders)
    else:
        oid, (ends, body) = _FIXED[values.type][0], _numbers(values, borders)
    heads = np.array([[1, 0, oid, 0, 1]] * len(lists), ">i4")
    heads[:, 3] = np.diff(borders)
    if null is not None:
        heads[:, 1] = np.diff(_places(null)[borders]) > 0
    heads[heads[:, 3] == 0, 0] = 0
    parts = zip(heads, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    # An empty array has no dimension, so no length and lower bound either.
    found = [(head if end > begin else head[:3]).tobytes() + body[begin:end].tobytes() for head, begin, end in parts]
    return pa.array(
        found, pa.binary(), mask=lists.is_null().to_numpy(zero_copy_only=False) if lists.null_count else None
    )


def _flat(lists: pa.ListArray) -> tuple[_Integers, pa.Array]:
    # The borders of the lists, and all elements.
    if lists.null_count:
        return _places(pc.list_value_length(lists).fill_null(0).to_numpy()), lists.flatten()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], lists.values.slice(offsets[0], offsets[-1] - offsets[0])


def _places(lengths: npt.NDArray[Any]) -> _Integers:
    places = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=places[1:])
    return places


def _elements(values: pa.Array) -> npt.NDArray[np.void]:
    format_ = _FIXED[values.type][1]
    elements = np.empty(len(values), [("length", ">i4"), ("value", format_)])
    elements["length"] = np.dtype(format_).itemsize
    if values.type == _MOMENT:
        elements["value"] = values.cast(pa.int64()).to_numpy() - _EPOCH_US
    else:
        elements["value"] = values.to_numpy(zero_copy_only=False)
    return elements


def _numbers(values: pa.Array, borders: _Integers) -> tuple[_Integers, _Bytes]:
    elements = _elements(values)
    return borders * elements.dtype.itemsize, elements.view(np.uint8)


def _numbers_or_null(values: pa.Array, null: npt.NDArray[np.bool_], borders: _Integers) -> tuple[_Integers, _Bytes]:
    # A null has only a length.
    elements = _elements(values.fill_null(_NOTHING.cast(values.type)))
    elements["length"][null] = -1
    size = elements.dtype.itemsize
    kept = np.ones((len(elements), size), bool)
    kept[null, 4:] = False
    lengths = np.where(null, 4, size)
    return _places(lengths)[borders], elements.view(np.uint8).reshape(-1, size)[kept]


def _texts(values: pa.Array, borders: _Integers) -> tuple[_Integers, _Bytes]:
    data = values.cast(pa.binary())
    sizes = pc.binary_length(data).fill_null(-1).to_numpy().astype(">i4")
    prefixes = pa.Array.from_buffers(pa.binary(4), len(data), [None, pa.py_buffer(sizes)]).cast(pa.binary())
    _, offsets, body = pc.binary_join_element_wise(prefixes, data.fill_null(b""), b"").buffers()
    return np.frombuffer(offsets, np.int32).astype(np.int64)[borders], np.frombuffer(body, np.uint8)
