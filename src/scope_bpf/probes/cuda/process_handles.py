"""Which kernels the handles in a process stand for, from its memory.

Who launches a kernel keeps its handle in a variable of its own (CUDA 13, `find_handles`). Handles that a process got
before it was watched are looked for there soon, since it may end, and again when one that is not known is launched.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scope_bpf.code.modules import Module
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.probes.cuda.registrations import Handles

_MOST_PROCESSES = 1024  # that are kept before those that have ended are looked for
_MOST_BYTES = 64 << 20  # from the first variable to the last one
_MOST_IN_VAIN = 4096  # handles of a process

Array = np.ndarray[Any, np.dtype[Any]]


class HandlesOfModule(Protocol):
    """A file, and the variables in it."""

    module: Module

    @property
    def handles(self) -> Handles:
        """The variables that hold handles."""


@dataclass(frozen=True, eq=False)
class _Filled:
    """The handles of a file that are in their variables, in order, and the host functions; shape (handles,)."""

    module: Module
    handles: Array
    functions: Array

    def find(self, handle: int) -> tuple[Module, int] | None:
        at = int(np.searchsorted(self.handles, np.uint64(handle)))
        if at == len(self.handles) or self.handles[at] != handle:
            return None
        return self.module, int(self.functions[at])


@dataclass
class _Process:
    """Files by where they begin in memory; what was read there, in which process; what was looked for in vain."""

    files: Mapping[int, HandlesOfModule]
    seen: tuple[int, list[_Filled]] = (0, [])  # when the process had started, in ticks
    in_vain: set[tuple[int, int]] = field(default_factory=set)


class ProcessHandles:
    """The handles of watched processes. One that has ended before they were read has none.

    A thread reads while another asks.
    """

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}

    def add_process(self, pid: int, files: Mapping[int, HandlesOfModule]) -> None:
        """Keeps where a process has files with kernels; in place of what was said before."""
        if len(self._processes) >= _MOST_PROCESSES:
            kept = list(self._processes.items())
            self._processes = {one: process for one, process in kept if Path(f"/proc/{one}").exists()}
        if files:
            self._processes[pid] = _Process(files)

    def drop_module(self, module: Module) -> None:
        """Forgets a file."""
        for pid, process in list(self._processes.items()):
            files = {base: file for base, file in process.files.items() if file.module is not module}
            if len(files) < len(process.files):
                self._processes[pid] = _Process(files)

    def read(self, pid: int) -> None:
        """Reads what a process has, if it is there still."""
        if process := self._processes.get(pid):
            process.seen = _read(pid, process.files) or process.seen

    def find(self, pid: int, start_ns: int, handle: int) -> tuple[Module, int] | None:
        """The file and the address of the host function that a process has a handle for; None if it is not known."""
        process = self._processes.get(pid)
        if process is None:
            return None
        place = _find(process, start_ns, handle)
        if place is None and (start_ns, handle) not in process.in_vain:
            process.seen = _read(pid, process.files) or process.seen
            place = _find(process, start_ns, handle)
            if place is None and len(process.in_vain) < _MOST_IN_VAIN:
                process.in_vain.add((start_ns, handle))
        return place


def _find(process: _Process, start_ns: int, handle: int) -> tuple[Module, int] | None:
    start_ticks, filled = process.seen
    places = (one.find(handle) for one in filled if start_ticks == start_ns // TICK_NS)
    return next((place for place in places if place), None)


def _read(pid: int, files: Mapping[int, HandlesOfModule]) -> tuple[int, list[_Filled]] | None:
    """When a process started, in ticks, and every handle that is in its variable now; None: it has ended."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        start_ticks = stat_of(pid).start_ticks  # of the process whose memory is open: another has no other's number yet
        return start_ticks, [_read_file(memory, base, file) for base, file in files.items()]
    except OSError:
        return None
    finally:
        os.close(memory)


def _read_file(memory: int, base: int, file: HandlesOfModule) -> _Filled:
    handles = file.handles
    variables, functions = handles.variables, handles.functions
    size = int(variables[-1] - variables[0]) + 8 if len(variables) else 0
    data = os.pread(memory, size, base + int(variables[0])) if 0 < size <= _MOST_BYTES else b""
    if not data or len(data) < size:
        return _Filled(file.module, np.empty(0, np.uint64), np.empty(0, np.int64))
    values = np.ndarray(size - 7, "<u8", data, strides=(1,))[variables - variables[0]]
    order = np.argsort(values)
    order = order[values[order] > 0]
    return _Filled(file.module, values[order], functions[order])
