"""CPU cost of BPF programs, from the kernel's statistics."""

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from scope_bpf.binding.capability import raised
from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.host import CAP_SYS_ADMIN


class KernelStatistics:
    """While entered, the kernel measures the run time of every BPF program. Measuring costs about 50 ns per run.

    Entering needs CAP_SYS_ADMIN, which only has to be permitted.

    Raises:
        KernelError: the kernel refused (on entry).
    """

    def __enter__(self) -> Self:
        with raised(CAP_SYS_ADMIN):
            self._fd = check(lib.scope_enable_statistics(), "cannot enable the kernel's BPF statistics")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


@dataclass(frozen=True)
class Cost:
    """Cost of programs: run time in ns and number of runs, counted while statistics were enabled.

    Attributes:
        missed: runs that the kernel skipped because the program was already running on that CPU; always counted.
    """

    run_time_ns: int = 0
    run_count: int = 0
    missed: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.run_time_ns + other.run_time_ns, self.run_count + other.run_count, self.missed + other.missed)


def program_cost(fd: int) -> Cost:
    """The cost of one program."""
    run_time_ns, run_count, missed = (ffi.new("uint64_t *") for _ in range(3))
    check(lib.scope_program_cost(fd, run_time_ns, run_count, missed), "cannot read a program's statistics")
    return Cost(run_time_ns[0], run_count[0], missed[0])
