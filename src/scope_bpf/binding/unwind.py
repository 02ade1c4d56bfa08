"""Reads `.eh_frame` sections: makes unwind tables, and finds functions."""

import errno
from typing import Any

import numpy as np

from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.errors import KernelError

Rows = np.ndarray[Any, np.dtype[Any]]

_FUNCTION = np.dtype([("start", "u8"), ("end", "u8")])  # scope_function, cdef/shim.h
_MOST_FUNCTIONS = 1 << 22


def unwind_rows(section: bytes, address: int, base: int, dtype: np.dtype[Any]) -> Rows:
    """The rows for all code that a section describes, in order of address; what is damaged is left out.

    Args:
        section: content of `.eh_frame`.
        address: of the section in the file's memory.
        base: the address that rows count from.
        dtype: of struct unwind_row (unwind.h).

    Raises:
        KernelError: not enough memory; or the section makes too much work, or more than 32 million rows.
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


def functions_in(section: bytes, address: int) -> Rows:
    """Addresses at which the functions that a section describes `start` and `end`, in order of address.

    Args:
        section: content of `.eh_frame`.
        address: of the section in the file's memory.

    Raises:
        KernelError: the section makes too much work, or has more than 4 million functions.
    """
    content = ffi.from_buffer(section)
    arguments = content, len(section), address
    action = "cannot find functions"
    count = check(lib.scope_unwind_functions(*arguments, ffi.NULL, 0), action)
    if count > _MOST_FUNCTIONS:
        raise KernelError(action, errno.E2BIG)
    found = np.empty(count, _FUNCTION)
    check(lib.scope_unwind_functions(*arguments, ffi.from_buffer("scope_function[]", found), count), action)
    return found
