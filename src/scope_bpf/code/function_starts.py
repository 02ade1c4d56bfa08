"""Where functions without symbols begin: `.eh_frame`, which stripped files keep, describes each function."""

from typing import Any

import numpy as np

from scope_bpf.binding.unwind import functions_in
from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import KernelError

Array = np.ndarray[Any, np.dtype[Any]]


class FunctionStarts:
    """The functions of a file. A part that the compiler has moved away from its function counts as a function."""

    def __init__(self, elf: ElfFile) -> None:
        address, section = elf.section(".eh_frame")
        try:
            found = functions_in(section, address)
        except KernelError:  # hostile; its unwind table is not made either, which is told
            found = functions_in(b"", 0)
        # A linkage table is described as one function, but has many.
        for start, end in elf.spans(".plt"):
            found = found[(found["end"] <= start) | (found["start"] >= end)]
        self._starts, self._ends = found["start"].copy(), found["end"].copy()

    @property
    def spans(self) -> tuple[Array, Array]:
        """Addresses at which each function begins and ends, in order of the begins."""
        return self._starts, self._ends

    def start_of(self, address: int) -> int | None:
        """Where the function with the code at an address begins; None if this is not known."""
        index = int(np.searchsorted(self._starts, address, "right")) - 1
        return int(self._starts[index]) if index >= 0 and address < self._ends[index] else None
