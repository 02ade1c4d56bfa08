"""Handles that a process got before it was watched, read from its memory; here from this process's."""

import os
import subprocess
from ctypes import addressof, c_uint64
from typing import Any

import numpy as np
import pytest

from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.probes.cuda.process_handles import ProcessHandles
from scope_bpf.probes.cuda.registrations import Handles

VARIABLES, FUNCTIONS = np.array([0x40, 0x48, 0x60]), np.array([0x1000, 0x1100, 0x1200])
HANDLES = (0x7F0000001000, 0x7F0000002000, 0)  # the last kernel was not launched yet


class File:
    """A file with three kernels, which counts how often its handles are read."""

    def __init__(self) -> None:
        self.module: Any = object()
        self.looked_at = 0

    @property
    def handles(self) -> Handles:
        self.looked_at += 1
        return Handles(VARIABLES, FUNCTIONS)


@pytest.fixture
def start_ns() -> int:
    return stat_of(os.getpid()).start_ticks * TICK_NS


def mapped() -> tuple[int, Any]:
    """The start address of the file's variables in this process, and the object that owns this memory."""
    memory = (c_uint64 * 16)()
    for variable, handle in zip(VARIABLES.tolist(), HANDLES, strict=True):
        memory[variable // 8] = handle
    return addressof(memory), memory


def test_handles_are_in_their_variables(start_ns: int) -> None:
    """A handle leads to its host function. The memory is read at the first search, and again for an unknown handle."""
    handles, file, (base, memory) = ProcessHandles(), File(), mapped()
    for handle, function in zip(HANDLES[:2], FUNCTIONS.tolist(), strict=False):
        assert handles.find(os.getpid(), start_ns, handle, {base: file}) == (file.module, function)
    assert file.looked_at == 1
    memory[VARIABLES[2] // 8] = 0x7F0000003000
    assert handles.find(os.getpid(), start_ns, 0x7F0000003000, {base: file}) == (file.module, 0x1200)


def test_what_is_no_kernels_handle(start_ns: int) -> None:
    """An unknown handle is not found, and the memory is read for it only once."""
    handles, file, (base, _memory) = ProcessHandles(), File(), mapped()
    assert [handles.find(os.getpid(), start_ns, 0x1234, {base: file}) for _ in range(3)] == [None] * 3
    assert file.looked_at == 1


def test_a_file_that_is_mapped_later(start_ns: int) -> None:
    """When the process's files change, a missing handle is searched again. Handles of files still mapped are found."""
    handles, file, (base, _memory), nowhere = ProcessHandles(), File(), mapped(), 1 << 46
    assert handles.find(os.getpid(), start_ns, HANDLES[0], {}) is None
    assert handles.find(os.getpid(), start_ns, HANDLES[0], {nowhere: File()}) is None
    assert handles.find(os.getpid(), start_ns, HANDLES[0], {nowhere: File(), base: file}) == (file.module, 0x1000)
    assert handles.find(os.getpid(), start_ns, HANDLES[1], {base: file}) == (file.module, 0x1100)


def test_another_process_of_the_same_number(start_ns: int) -> None:
    """A handle of an ended process is not searched in the memory of a new process with the same pid."""
    handles, file, (base, _memory) = ProcessHandles(), File(), mapped()
    for _ in range(2):
        assert handles.find(os.getpid(), start_ns + TICK_NS, HANDLES[0], {base: file}) is None
        assert handles.find(os.getpid(), start_ns, HANDLES[0], {base: file}) == (file.module, FUNCTIONS[0])


def test_a_process_that_has_ended(start_ns: int) -> None:
    """A handle of an ended process is not found, without an error."""
    handles, file, (base, _memory) = ProcessHandles(), File(), mapped()
    with subprocess.Popen(["true"]) as child:
        child.wait()
        assert handles.find(child.pid, start_ns, HANDLES[0], {base: file}) is None


def test_a_file_that_is_dropped(start_ns: int) -> None:
    """Handles of a dropped file are no longer found; those of other files are."""
    handles, kept, dropped, (base, _memory), (other, _other_memory) = (
        ProcessHandles(),
        File(),
        File(),
        mapped(),
        mapped(),
    )
    assert handles.find(os.getpid(), start_ns, HANDLES[0], {base: dropped, other: kept}) == (dropped.module, 0x1000)
    handles.drop_module(dropped.module)
    assert handles.find(os.getpid(), start_ns, HANDLES[0], {other: kept}) == (kept.module, 0x1000)
