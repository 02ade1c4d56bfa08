"""The drain: from ring buffers to buffers of rows, in a thread of C's own."""

from collections.abc import Sequence
from typing import Any

from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.errors import KernelError

# At the rates a ring is read at, a fifth of a second of waiting for a busy core overflows it. A reader needs little of
# a core, so that it may come first; five steps are three times the weight (sched_prio_to_weight,
# kernel/sched/core.c).
READER_NICENESS = -5


def create_ring(size: int) -> int:
    """Makes a ring of so many bytes, a power of two and of pages; returns its file descriptor, the caller's.

    Raises:
        KernelError: there is no memory for it.
    """
    return check(lib.scope_create_ring(size), f"cannot make a ring of {size} bytes")


class Drain:
    """Reads rings into buffers, from `start` on. Take and stop from one thread; `wake` and `unkept` from any.

    Args:
        ring_fds: the rings.
        row_sizes: per stream, the size of a record's fixed part in bytes.
        buffer_bytes: a buffer that is about this large can be taken.
        waiting_bytes: so much may wait to be taken; what is not read yet waits in the rings.
    """

    def __init__(
        self, ring_fds: Sequence[int], row_sizes: Sequence[int], buffer_bytes: int, waiting_bytes: int
    ) -> None:
        self._drain = lib.scope_drain_new(len(row_sizes), list(row_sizes), buffer_bytes, waiting_bytes)
        if self._drain == ffi.NULL:
            raise KernelError("cannot allocate a drain", ffi.errno)
        try:
            for fd in ring_fds:
                check(lib.scope_drain_add_ring(self._drain, fd), "cannot map a ring buffer")
        except KernelError:
            self.close()
            raise

    def start(self) -> None:
        """Has its thread read from now on.

        Raises:
            KernelError: there can be no further thread.
        """
        check(lib.scope_drain_start(self._drain, READER_NICENESS), "cannot start the thread that reads rings")

    def take(self, timeout_ms: int) -> tuple[int, Any] | None:
        """A buffer: the number of its stream and the records, a `scope_rows *` that frees itself.

        Waits for a full one until the time is over or `wake` is called, then takes what there is; None: nothing.
        """
        rows = lib.scope_drain_take(self._drain, timeout_ms)
        return None if rows == ffi.NULL else (int(rows.stream), ffi.gc(rows, lib.scope_rows_free))

    def wake(self) -> None:
        """Ends the take under way, or the next one, early."""
        lib.scope_drain_wake(self._drain)

    def unkept(self, stream: int) -> int:
        """Records of a stream that could not be kept: there was no memory, or they were damaged."""
        return int(lib.scope_drain_unkept(self._drain, stream))

    def stop(self) -> None:
        """Ends its thread; `take` still reads what the rings hold. May be called again."""
        lib.scope_drain_stop(self._drain)

    def close(self) -> None:
        """Ends its thread and frees the buffers. May be called again."""
        if self._drain != ffi.NULL:
            lib.scope_drain_free(self._drain)
            self._drain = ffi.NULL
