"""Names of the kernel's functions, from /proc/kallsyms (proc(5)); addresses are there with CAP_SYSLOG only."""

import time
from pathlib import Path

import numpy as np

from scope_bpf.binding.capability import raised
from scope_bpf.catalogue.stream import Rows
from scope_bpf.host import CAP_SYSLOG

_KALLSYMS, _MODULES = Path("/proc/kallsyms"), Path("/proc/modules")
_AGED_S = 60  # modules and BPF programs come and go
_END = "_etext"  # of the kernel's own functions
MARK = "_[k]"  # as in the folded stacks of other profilers: tells kernel frames from the program's

_SWITCH = f"__schedule{MARK}"  # kernel/sched/core.c: reports each switch


class KernelSymbols:
    """The kernel's functions. They are read when the first name is needed, and again when one is needed later."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._starts, self._functions = np.empty(0, np.uint64), list[str]()
        self._read_at = -float(_AGED_S)

    def names(self, addresses: Rows) -> list[str]:
        """The name of the function that each return address is in, or the address.

        Args:
            addresses: shape (frames,), uint64.
        """
        return [self._name(int(address) - 1) for address in addresses]

    def _name(self, address: int) -> str:
        if address not in self._names:
            if time.monotonic() >= self._read_at + _AGED_S:
                self._read_at = time.monotonic()
                self._starts, self._functions = _functions()
            index = int(np.searchsorted(self._starts, np.uint64(address), "right")) - 1
            name = self._functions[index] if index >= 0 and self._starts[index] else ""
            self._names[address] = f"{name or f'{address:#x}'}{MARK}"
        return self._names[address]


def _functions() -> tuple[Rows, list[str]]:
    """Start addresses in order, and names; no name: what begins there is no function."""
    found = []
    with raised(CAP_SYSLOG):
        symbols, modules = _KALLSYMS.read_text(), _MODULES.read_text() if _MODULES.exists() else ""
    for line in symbols.splitlines():
        address, kind, name = line.split(maxsplit=2)
        if kind in "tTwW":
            found.append((int(address, 16), "" if name == _END else name.partition("\t")[0]))
    for line in modules.splitlines():
        size, address = line.split()[1], line.split()[5]
        found.append((int(address, 16) + int(size), ""))
    found.sort()
    return np.array([address for address, _ in found], np.uint64), [name for _, name in found]


def before_switch(frames: list[str]) -> list[str]:
    """The frames, outermost first, without those of the tracer inside the function that switches."""
    inner = next((index for index, frame in enumerate(reversed(frames)) if frame == _SWITCH), 0)
    return frames[: len(frames) - inner]
