"""Finds the kernels of handles in a process's memory.

The code that launches a kernel keeps the kernel's handle in a variable (CUDA 13, `find_handles`). When a process
launches a handle that it got before recording began, these variables are read.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scope_bpf.code.modules import Module
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.probes.cuda.registrations import Handles

_MOST_PROCESSES = 1024  # beyond, ended processes are removed
_MOST_BYTES = 64 << 20  # from the first to the last variable
_MOST_IN_VAIN = 4096  # handles per process that were searched without success

Array = np.ndarray[Any, np.dtype[Any]]


class HandlesOfModule(Protocol):
    """A file and its variables."""

    module: Module

    @property
    def handles(self) -> Handles:
        """The variables with handles."""


@dataclass(frozen=True, eq=False)
class _Filled:
    """Sorted handles found in a file's variables, and their host functions; shape (handles,)."""

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
    """Files by start address in memory, handles read there, and handles not found there."""

    files: Mapping[int, HandlesOfModule]
    filled: list[_Filled] = field(default_factory=list)
    in_vain: set[int] = field(default_factory=set)

    def find(self, handle: int) -> tuple[Module, int] | None:
        return next((place for one in self.filled if (place := one.find(handle))), None)


class ProcessHandles:
    """The handles of watched processes. Handles that were not read before the process ends stay unknown.

    One thread may call `read` while another calls `find`.
    """

    def __init__(self) -> None:
        self._processes: dict[tuple[int, int], _Process] = {}  # by pid and start, in ticks

    def read(self, pid: int, files: Mapping[int, HandlesOfModule]) -> None:
        """Reads the handles of a process, if it still exists."""
        with suppress(OSError):
            start_ticks = stat_of(pid).start_ticks
            process = self._process(pid, start_ticks, files)
            process.filled = _read(pid, start_ticks, files) or process.filled

    def find(
        self, pid: int, start_ns: int, handle: int, files: Mapping[int, HandlesOfModule]
    ) -> tuple[Module, int] | None:
        """The file and the address of the host function for a process's handle; None if unknown.

        Args:
            files: files with kernels, by start address in the process's memory.
        """
        start_ticks = start_ns // TICK_NS
        process = self._process(pid, start_ticks, files)
        place = process.find(handle)
        if place is None and files and handle not in process.in_vain:
            process.filled = _read(pid, start_ticks, files) or process.filled
            place = process.find(handle)
            if place is None and len(process.in_vain) < _MOST_IN_VAIN:
                process.in_vain.add(handle)
        return place

    def _process(self, pid: int, start_ticks: int, files: Mapping[int, HandlesOfModule]) -> _Process:
        process = self._processes.get((pid, start_ticks))
        if process is None:
            if len(self._processes) >= _MOST_PROCESSES:
                kept = list(self._processes.items())
                self._processes = {key: one for key, one in kept if Path(f"/proc/{key[0]}").exists()}
            process = self._processes.setdefault((pid, start_ticks), _Process(files))
        elif process.files != files:
            process.files, process.in_vain = files, set()
        return process

    def drop_module(self, module: Module) -> None:
        """Forgets a file, and the handles of processes that have mapped it."""
        for key, process in list(self._processes.items()):
            if any(file.module is module for file in process.files.values()):
                self._processes.pop(key, None)


def _read(pid: int, start_ticks: int, files: Mapping[int, HandlesOfModule]) -> list[_Filled]:
    """All handles that are in variables now; none if the process has ended."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        if stat_of(pid).start_ticks != start_ticks:
            return []  # another process has this pid
        return [_read_file(memory, base, file) for base, file in files.items()]
    except OSError:
        return []
    finally:
        os.close(memory)


def _read_file(memory: int, base: int, file: HandlesOfModule) -> _Filled:
    handles = file.handles
    variables, functions = handles.variables, handles.functions
    size = int(variables[-1] - variables[0]) + 8 if len(variables) else 0
    data = b""
    with suppress(OSError):  # no longer mapped
        data = os.pread(memory, size, base + int(variables[0])) if 0 < size <= _MOST_BYTES else b""
    if not data or len(data) < size:
        return _Filled(file.module, np.empty(0, np.uint64), np.empty(0, np.int64))
    values = np.ndarray(size - 7, "<u8", data, strides=(1,))[variables - variables[0]]
    order = np.argsort(values)
    order = order[values[order] > 0]
    return _Filled(file.module, values[order], functions[order])
