"""The drain: from ring buffers to one buffer of records per stream, in C, with the GIL released."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.errors import KernelError

# At the rates a ring is read at, a fifth of a second of waiting for a busy core overflows it. A reader needs little of
# a core, so that it may come first; five steps are three times the weight (sched_prio_to_weight,
# kernel/sched/core.c).
READER_NICENESS = -5


def prefer_this_thread() -> None:
    """Has the calling thread, which reads rings, come before others on its CPU; no change without CAP_SYS_NICE."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), READER_NICENESS)


def create_ring(size: int) -> int:
    """Makes a ring of so many bytes, a power of two and of pages; returns its file descriptor, the caller's.

    Raises:
        KernelError: there is no memory for it.
    """
    return check(lib.scope_create_ring(size), f"cannot make a ring of {size} bytes")


class Drain:
    """Reads rings into buffers. Poll and take from one thread; `wake` from any.

    Args:
        ring_fds: the rings.
        row_sizes: per stream, the size of a record's fixed part in bytes.
        limit_bytes: polls stop when the buffers hold this much; what is not read yet waits in the rings.
    """

    def __init__(self, ring_fds: Sequence[int], row_sizes: Sequence[int], limit_bytes: int) -> None:
        self._drain = lib.scope_drain_new(len(row_sizes), list(row_sizes), limit_bytes)
        if self._drain == ffi.NULL:
            raise KernelError("cannot allocate a drain", ffi.errno)
        try:
            for fd in ring_fds:
                check(lib.scope_drain_add_ring(self._drain, fd), "cannot map a ring buffer")
        except KernelError:
            self.close()
            raise

    def poll(self, timeout_ms: int) -> bool:
        """Fills the buffers until they are full, the time is over or `wake` was called; True if they are full."""
        return bool(check(lib.scope_drain_poll(self._drain, timeout_ms), "cannot read a ring buffer"))

    def rest(self) -> bool:
        """Reads what the rings hold now, without waiting; True if the buffers are full and there may be more."""
        return bool(check(lib.scope_drain_rest(self._drain), "cannot read a ring buffer"))

    def take(self, stream: int) -> Any:
        """The records of a stream as a `scope_rows *` that frees itself, or None if there are none."""
        rows = lib.scope_drain_take(self._drain, stream)
        return None if rows == ffi.NULL else ffi.gc(rows, lib.scope_rows_free)

    def wake(self) -> None:
        """Ends the poll under way, or the next one, early."""
        lib.scope_drain_wake(self._drain)

    def wake_on(self, fd: int) -> None:
        """Has polls end early when there is something to read from this descriptor as well.

        Raises:
            KernelError: it cannot be waited for.
        """
        check(lib.scope_drain_wake_on(self._drain, fd), "cannot wait for a descriptor")

    def unkept(self, stream: int) -> int:
        """Records of a stream that could not be kept: there was no memory, or they were damaged."""
        return int(lib.scope_drain_unkept(self._drain, stream))

    def close(self) -> None:
        """Frees the buffers. May be called again."""
        if self._drain != ffi.NULL:
            lib.scope_drain_free(self._drain)
            self._drain = ffi.NULL
