"""What BPF programs cost, by the kernel's own count."""

import os
from types import TracebackType
from typing import Self

from scope_bpf._ffi import check, ffi, lib


class KernelStatistics:
    """While entered, the kernel measures the run time of every BPF program, which itself costs some 50 ns a run.

    Raises:
        KernelError: the kernel refused (on entry).
    """

    def __enter__(self) -> Self:
        fd = lib.bpf_enable_stats(lib.BPF_STATS_RUN_TIME)
        self._fd = check(fd if fd >= 0 else -ffi.errno, "cannot switch on the kernel's BPF statistics")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


def program_cost(fd: int) -> tuple[int, int]:
    """Run time in ns and number of runs of a program, counted while statistics were on."""
    run_time_ns, run_count = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    check(lib.scope_program_cost(fd, run_time_ns, run_count), "cannot read a program's statistics")
    return run_time_ns[0], run_count[0]
