"""Finds functions of a runtime that is statically linked into a stripped program; x86-64.

A kernel's host function passes its own address to `cudaLaunchKernel(host_function, ...)`. Since CUDA 13, it gets the
kernel's handle once, with `__cudaGetKernel(&handle, host_function)`, and then calls `__cudaLaunchKernel(handle, ...)`,
which only jumps to cudaLaunchKernel (crt/host_runtime.h). Registered kernels are known (`find_kernels`), so these calls
are found by their arguments. Functions for memory and copies cannot be found this way: of these, only the driver's
calls are recorded.
"""

from collections import Counter

import numpy as np

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.probes.cuda.machine_code import DEEPEST, RDI, Array, calls_within
from scope_bpf.probes.cuda.registrations import Kernels, handles_within

GET_KERNEL, LAUNCH = "__cudaGetKernel", "cudaLaunchKernel"

_GO_ON = b"\x55\x48\x89\xe5\x5d\xe9"  # push %rbp; mov %rsp,%rbp; pop %rbp; jmp rel32: all of __cudaLaunchKernel
_HELPER = 128  # bytes of the extra function in unoptimized code
_SAMPLE = 256  # number of host functions to read
_MAJORITY = 0.75


def find_launch_functions(elf: ElfFile, kernels: Kernels) -> dict[str, int]:
    """Offsets of `cudaLaunchKernel` and `__cudaGetKernel`, if found without doubt."""
    if elf.machine != X86_64 or not len(kernels):
        return {}
    sample = kernels.sample(_SAMPLE)
    asked, handles = handles_within(elf, kernels, sample)
    votes = {GET_KERNEL: Counter(asked.targets.tolist()), LAUNCH: _launchers(elf, kernels, sample, handles.variables)}
    found = {name: _elected(counts) for name, counts in votes.items()}
    offsets = {name: elf.offset_of(address) for name, address in found.items() if address is not None}
    return {name: offset for name, offset in offsets.items() if offset is not None}


def _elected(counts: Counter[int]) -> int | None:
    """The target of nearly all calls; a few others may be calls that only ask about a kernel."""
    for address, count in counts.most_common(1):
        if count > _MAJORITY * counts.total():
            return address
    return None


def _launchers(elf: ElfFile, kernels: Kernels, functions: Array, handles: Array) -> Counter[int]:
    """The functions that are called with a host function's address, or jumped to with a handle."""
    launchers: Counter[int] = Counter()
    for _ in range(DEEPEST):
        calls = calls_within(elf, functions, kernels.functions)
        (passed,), (stored,) = (found.T for found in calls.arguments((RDI,)))
        with_handle = Counter(calls.targets[stored & np.isin(passed, handles)].tolist())
        passed[stored] = elf.pointers_at(passed[stored])
        launchers.update(calls.targets[np.isin(passed, kernels.functions)].tolist())
        for target, count in with_handle.items():
            if launcher := _gone_on_to(elf, target):
                launchers[launcher] += count
        if launchers:
            break
        functions = np.unique(calls.targets)
    return launchers


def _gone_on_to(elf: ElfFile, address: int) -> int | None:
    """The target of the jump in `__cudaLaunchKernel`, if this is the function at an address, or is called there."""
    offset = elf.offset_of(address)
    code = elf.read(offset, _HELPER) if offset is not None else b""
    if code.startswith(_GO_ON) and len(code) >= 10:
        return address + 10 + int.from_bytes(code[6:10], "little", signed=True)
    at = code.find(b"\xe8")
    while 0 <= at <= len(code) - 5:
        target = address + at + 5 + int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
        inner = elf.offset_of(target)
        if inner is not None and elf.read(inner, len(_GO_ON)) == _GO_ON:
            return _gone_on_to(elf, target)
        at = code.find(b"\xe8", at + 1)
    return None
