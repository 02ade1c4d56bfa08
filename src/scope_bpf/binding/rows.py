"""Rows from the drain (`scope_rows *`): their fixed parts, and columns of the texts in their tails."""

from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.ffi import check, ffi, lib


def fixed_parts(rows: Any) -> Any:
    """The rows' fixed parts as a buffer, row after row; valid as long as the rows exist."""
    return ffi.buffer(rows.rows, rows.count * rows.row_size)


def tails(rows: Any) -> tuple[Any, Any]:
    """All tails one behind the other, a copy, uint8; and where each begins and the last one ends, uint64."""
    starts = np.full(rows.count + 1, rows.tail_bytes, np.uint64)
    if rows.tail_starts != ffi.NULL:
        starts[:-1] = np.frombuffer(ffi.buffer(rows.tail_starts, rows.count * starts.itemsize), np.uint64)
    return np.frombuffer(bytes(ffi.buffer(rows.tails, rows.tail_bytes)), np.uint8), starts


def texts(rows: Any, offset: int, stream: str, *, are_paths: bool) -> pa.Array:
    """A column of strings; `offset` is the place of the string's descriptor in the fixed part, in bytes.

    Raises:
        KernelError: a record refers to text outside itself (EINVAL): this stream's program did not make it.
    """
    gather = lib.scope_paths if are_paths else lib.scope_texts
    ends = np.zeros(rows.count + 1, np.int32)
    ends_ = ffi.from_buffer("int32_t[]", ends) + 1
    size = check(gather(rows, offset, ends_, ffi.NULL), f"a record of '{stream}' is damaged")
    data = np.empty(size, np.uint8)
    gather(rows, offset, ends_, ffi.from_buffer("uint8_t[]", data))
    return pa.StringArray.from_buffers(rows.count, pa.py_buffer(ends), pa.py_buffer(data))


def text_lists(rows: Any, offset: int, stream: str) -> pa.Array:
    """A column of lists of strings; `offset` as in `texts`.

    Raises:
        KernelError: as in `texts`.
    """
    lists = np.zeros(rows.count + 1, np.int32)
    lists_ = ffi.from_buffer("int32_t[]", lists) + 1
    count = ffi.new("int64_t *")
    size = lib.scope_text_lists(rows, offset, lists_, count, ffi.NULL, ffi.NULL)
    check(size, f"a record of '{stream}' is damaged")
    ends, data = np.zeros(count[0] + 1, np.int32), np.empty(size, np.uint8)
    ends_ = ffi.from_buffer("int32_t[]", ends) + 1
    lib.scope_text_lists(rows, offset, lists_, count, ends_, ffi.from_buffer("uint8_t[]", data))
    every = pa.StringArray.from_buffers(count[0], pa.py_buffer(ends), pa.py_buffer(data))
    return pa.ListArray.from_arrays(pa.array(lists), every)
