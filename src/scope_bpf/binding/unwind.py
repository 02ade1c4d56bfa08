"""Makes unwind tables from `.eh_frame` sections."""

from typing import Any

import numpy as np

from scope_bpf.binding.ffi import check, ffi, lib

Rows = np.ndarray[Any, np.dtype[Any]]


def unwind_rows(section: bytes, address: int, base: int, dtype: np.dtype[Any]) -> Rows:
    """The rows for all code that a section describes, in order of address; what is damaged is left out.

    Args:
        section: content of `.eh_frame`.
        address: of the section in the file's memory.
        base: the address that rows count from.
        dtype: of struct unwind_row (unwind.h).

    Raises:
        KernelError: not enough memory.
    """
    found = ffi.new("struct unwind_row **")
    count = check(
        lib.scope_unwind_rows(ffi.from_buffer(section), len(section), address, base, found), "cannot make unwind rows"
    )
    if found[0] == ffi.NULL:
        return np.empty(0, dtype)
    try:
        return np.frombuffer(ffi.buffer(ffi.cast("char *", found[0]), count * dtype.itemsize), dtype).copy()
    finally:
        lib.free(found[0])
