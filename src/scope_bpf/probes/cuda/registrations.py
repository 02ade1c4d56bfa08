"""Which kernel each host function launches, from the code that nvcc makes to register them; x86-64.

A program tells the runtime of every kernel once, by `__cudaRegisterFunction(module, host_function, name, name, -1,
...)` (crt/host_runtime.h): both addresses are loaded right before the call. That stands in the file whether or not it
was stripped, however the runtime was linked.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.probes.cuda.machine_code import (
    LEA,
    RDI,
    RDX,
    RSI,
    Call,
    calls_to,
    entries_of,
    pieces,
)

REGISTER = "__cudaRegisterFunction"
GET_KERNEL = "__cudaGetKernel"
FATBIN = ".nv_fatbin"  # section of every file that has kernels

_NO_LIMIT = b"\x41\xb8\xff\xff\xff\xff"  # mov $-1,%r8d: the fifth argument


def find_kernels(elf: ElfFile) -> dict[int, str]:
    """The (mangled) names of kernels by the address of the host function that launches each."""
    if elf.machine != X86_64:
        return {}
    entries = entries_of(elf, REGISTER)
    found = {}
    for call in calls_to(elf, entries) if entries else _calls_by_their_arguments(elf):
        function, name_at = call.passed(RSI, elf), call.passed(RDX, elf)
        name = elf.text_at(name_at) if name_at is not None else None
        if function is not None and name and elf.is_code(function):
            found[function] = name
    return found


def find_handles(elf: ElfFile, kernels: Collection[int]) -> dict[int, int]:
    """Addresses of the variables that hold kernels' handles, and each one's host function (CUDA 13).

    Args:
        kernels: the host functions, as `find_kernels` gave them.
    """
    if elf.machine != X86_64:
        return {}
    entries = entries_of(elf, GET_KERNEL)
    calls = calls_to(elf, entries) if entries else calls_with_kernels(elf, kernels)
    return {variable: function for _, variable, function in handles_of(elf, calls, kernels)}


def handles_of(elf: ElfFile, calls: Iterable[Call], kernels: Collection[int]) -> Iterator[tuple[Call, int, int]]:
    """Those calls that are passed the address of a variable and a kernel's host function, with both."""
    for call in calls:
        variable, function = call.passed(RDI, elf), call.passed(RSI, elf)
        if variable is not None and function is not None and function in kernels and elf.is_data(variable):
            yield call, variable, function


def _calls_by_their_arguments(elf: ElfFile) -> list[Call]:
    """The calls of what is called most in the way that kernels are registered: where the runtime has no names."""
    by_target: dict[int, list[Call]] = {}
    for piece in pieces(elf):
        limits = np.flatnonzero((piece.code[:-1] == _NO_LIMIT[0]) & (piece.code[1:] == _NO_LIMIT[1]))
        for call in piece.calls_behind(limits):
            if _NO_LIMIT in call.before and RDX.load in call.before and elf.is_code(call.target):
                function = call.passed(RSI, elf)
                if function is not None and elf.is_code(function):
                    by_target.setdefault(call.target, []).append(call)
    return max(by_target.values(), key=len, default=[])


def calls_with_kernels(elf: ElfFile, kernels: Collection[int]) -> Iterator[Call]:
    """Calls before which the address of a kernel's host function is loaded, whoever is called."""
    wanted = np.array(sorted(kernels), np.int64)
    for piece in pieces(elf) if kernels else ():
        # A register that such a call does not set has what the call before was passed.
        yield from (replace(call, before=call.own) for call in piece.calls_behind(piece.uses_of(wanted, LEA)))
