"""Which kernels the handles in a process stand for, from its memory.

Who launches a kernel keeps its handle in a variable of its own (CUDA 13, `find_handles`). Handles that a process got
before it was watched are looked for there, once one of them is launched.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from scope_bpf.code.modules import Module
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.probes.cuda.registrations import Handles

_MOST_PROCESSES = 1024  # that are kept before those that have ended are looked for
_MOST_BYTES = 64 << 20  # from the first variable to the last one
_MOST_UNKNOWN = 4096  # handles of a process


class HandlesOfModule(Protocol):
    """A file, and the variables in it."""

    module: Module

    @property
    def handles(self) -> Handles:
        """The variables that hold handles."""


@dataclass
class _Process:
    """Files by where they begin in memory; kernels by handle; handles that were looked for in vain."""

    files: dict[int, HandlesOfModule]
    known: dict[int, tuple[Module, int]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)


class ProcessHandles:
    """The handles of watched processes. A process that has ended has none."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}

    def add_process(self, pid: int, files: dict[int, HandlesOfModule]) -> None:
        """Keeps where a process has files with kernels; in place of what was said before."""
        if len(self._processes) >= _MOST_PROCESSES:
            self._processes = {one: kept for one, kept in self._processes.items() if Path(f"/proc/{one}").exists()}
        if files:
            self._processes[pid] = _Process(files)

    def drop_module(self, module: Module) -> None:
        """Forgets a file."""
        for pid, process in list(self._processes.items()):
            files = {base: file for base, file in process.files.items() if file.module is not module}
            if len(files) < len(process.files):
                self._processes[pid] = _Process(files)

    def find(self, pid: int, start_ns: int, handle: int) -> tuple[Module, int] | None:
        """The file and the address of the host function that a process has a handle for; None if it is not known."""
        process = self._processes.get(pid)
        if process is None:
            return None
        if handle not in process.known and handle not in process.unknown:
            process.known |= _read(pid, start_ns, process.files)
            if handle not in process.known and len(process.unknown) < _MOST_UNKNOWN:
                process.unknown.add(handle)
        return process.known.get(handle)


def _read(pid: int, start_ns: int, files: Mapping[int, HandlesOfModule]) -> dict[int, tuple[Module, int]]:
    """Every handle that is in its variable now."""
    found: dict[int, tuple[Module, int]] = {}
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return found  # it has ended
    try:
        if stat_of(pid).start_ticks != start_ns // TICK_NS:
            return found  # another process has its number
        for base, file in files.items():
            for handle, function in _handles_at(memory, base, file.handles):
                found[handle] = file.module, function
    except OSError:
        pass  # it has ended meanwhile
    finally:
        os.close(memory)
    return found


def _handles_at(memory: int, base: int, handles: Handles) -> list[tuple[int, int]]:
    """Handle and host function of the variables that are filled."""
    variables = handles.variables
    if not len(variables) or (size := int(variables[-1] - variables[0]) + 8) > _MOST_BYTES:
        return []
    data = np.frombuffer(os.pread(memory, size, base + int(variables[0])), np.uint8)
    if len(data) < size:
        return []
    values = np.ndarray(size - 7, "<u8", data, strides=(1,))[variables - variables[0]]
    filled = values > 0
    return list(zip(values[filled].tolist(), handles.functions[filled].tolist(), strict=True))
