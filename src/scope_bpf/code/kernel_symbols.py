"""Names of the kernel's functions, from /proc/kallsyms (proc(5)); only root sees addresses there."""

from functools import cached_property
from pathlib import Path

import numpy as np

from scope_bpf.catalogue.stream import Rows

_KALLSYMS = Path("/proc/kallsyms")
_MARK = "_[k]"  # as in the folded stacks of other profilers: tells kernel frames from the program's

_SWITCH = f"__schedule{_MARK}"  # kernel/sched/core.c: reports each switch


class KernelSymbols:
    """The kernel's functions. They are read when the first name is needed."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def names(self, addresses: Rows) -> list[str]:
        """The name of the function that each return address is in, or the address.

        Args:
            addresses: shape (frames,), uint64.
        """
        return [self._name(int(address) - 1) for address in addresses]

    def _name(self, address: int) -> str:
        if address not in self._names:
            starts, names = self._functions
            index = int(np.searchsorted(starts, np.uint64(address), "right")) - 1
            self._names[address] = f"{names[index]}{_MARK}" if index >= 0 and starts[index] else f"{address:#x}{_MARK}"
        return self._names[address]

    @cached_property
    def _functions(self) -> tuple[Rows, list[str]]:
        """Start addresses in order, and names."""
        found = []
        for line in _KALLSYMS.read_text().splitlines():
            address, kind, name = line.split(maxsplit=2)
            if kind in "tTwW":
                found.append((int(address, 16), name.partition("\t")[0]))
        found.sort()
        return np.array([address for address, _ in found], np.uint64), [name for _, name in found]


def before_switch(frames: list[str]) -> list[str]:
    """The frames, outermost first, without those of the tracer inside the function that switches."""
    inner = next((index for index, frame in enumerate(reversed(frames)) if frame == _SWITCH), 0)
    return frames[: len(frames) - inner]
