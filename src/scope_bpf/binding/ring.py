"""The drain: a C thread that copies records from ring buffers to buffers of rows."""

from collections.abc import Sequence
from typing import Any

from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.errors import KernelError

# At high event rates, a ring overflows if its reader waits 0.2 s for a busy core. The reader needs little CPU time, so
# it may have priority: five steps give three times the weight (sched_prio_to_weight, kernel/sched/core.c).
READER_NICENESS = -5


def create_ring(size: int) -> int:
    """Creates a ring of `size` bytes, a power of two and a multiple of the page size; the caller closes the descriptor.

    Raises:
        KernelError: not enough memory.
    """
    return check(lib.scope_create_ring(size), f"cannot make a ring of {size} bytes")


class Drain:
    """Reads rings into buffers, after `start`. `take` and `stop` are for one thread; `wake` and `unkept` for any.

    Args:
        ring_fds: the rings.
        row_sizes: size of a record's fixed part by stream, in bytes.
        buffer_bytes: size at which a buffer is full.
        waiting_bytes: maximum size of full buffers; beyond, records stay in the rings.
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
        """Starts the thread.

        Raises:
            KernelError: the thread cannot be created.
        """
        check(lib.scope_drain_start(self._drain, READER_NICENESS), "cannot start the thread that reads rings")

    def take(self, timeout_ms: int) -> tuple[int, Any] | None:
        """Takes a buffer: the number of its stream, and the records, a `scope_rows *` that frees itself.

        Waits for a full buffer until the timeout or `wake`; then takes a partly filled one. None: there are no records.
        """
        rows = lib.scope_drain_take(self._drain, timeout_ms)
        return None if rows == ffi.NULL else (int(rows.stream), ffi.gc(rows, lib.scope_rows_free))

    def wake(self) -> None:
        """Ends the current `take`, or the next one, early."""
        lib.scope_drain_wake(self._drain)

    def unkept(self, stream: int) -> int:
        """Number of records of a stream that could not be kept: out of memory, or the record was damaged."""
        return int(lib.scope_drain_unkept(self._drain, stream))

    def stop(self) -> None:
        """Ends the thread; `take` still reads the rest of the rings. May be called again."""
        lib.scope_drain_stop(self._drain)

    def close(self) -> None:
        """Ends the thread and frees the buffers. May be called again."""
        if self._drain != ffi.NULL:
            lib.scope_drain_free(self._drain)
            self._drain = ffi.NULL
