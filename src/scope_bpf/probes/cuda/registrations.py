"""Finds the kernel of each host function, from the registration code made by nvcc and clang; x86-64.

A program registers every kernel once, with `__cudaRegisterFunction(module, host_function, name, name, -1, ...)`
(crt/host_runtime.h). Both addresses are loaded right before the call. This code is in stripped files too, and does not
depend on how the runtime was linked.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.probes.cuda.machine_code import (
    DEEPEST,
    NO_CALLS,
    R8,
    RDI,
    RDX,
    RSI,
    UNKNOWN,
    Array,
    Calls,
    calls_from,
    joined,
    pieces,
    stubs,
)

REGISTER = "__cudaRegisterFunction"
FATBIN = ".nv_fatbin"  # section in every file with kernels

_NO_LIMIT = 0xFFFFFFFF  # the fifth argument, a limit of threads, is -1
_LOADS_OF_IT = (b"\x41\xb8\xff\xff\xff\xff", b"\x41\x83\xc8\xff")  # mov $-1,%r8d; or $-1,%r8d
_NEAR = 96  # maximum bytes from there to the call
_SAMPLE = 512  # calls per piece of code that count as votes for the callee
_SOME = 64  # kernels to check whether a file has handles
_IDENTIFIER = re.compile(r"[A-Za-z_$.][\w$.]*", re.ASCII)  # includes mangled names
_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Kernels:
    """The kernels that a file registers. Names are read from the file when needed.

    Attributes:
        elf: the file.
        functions: sorted addresses of the host functions, shape (kernels,).
        names: addresses of the (mangled) names, shape (kernels,).
    """

    elf: ElfFile
    functions: Array
    names: Array

    def __len__(self) -> int:
        return len(self.functions)

    def sample(self, most: int) -> Array:
        """A sample of the host functions, spread over the file."""
        return self.functions[:: max(1, -(-len(self) // most))]

    def name_of(self, function: int) -> str | None:
        """The (mangled) name of a host function's kernel; None if the function launches none."""
        at = int(np.searchsorted(self.functions, function))
        if at == len(self.functions) or self.functions[at] != function:
            return None
        return self.elf.text_at(int(self.names[at]))


@dataclass(frozen=True, eq=False)
class Handles:
    """Variables with handles of kernels (CUDA 13).

    Attributes:
        variables: sorted addresses of the variables, shape (handles,).
        functions: address of the host function for each variable, shape (handles,).
    """

    variables: Array
    functions: Array


def find_kernels(elf: ElfFile) -> Kernels:
    """The kernels that a file registers. A host function with two names counts as unnamed."""
    if elf.machine != X86_64:
        return Kernels(elf, _EMPTY, _EMPTY)
    entries, slots = _entries_of(elf)
    if not entries and not slots:
        entries = _called_to_register(elf)
    functions, names = _calls_of(elf, entries, slots).passed((RSI, RDX), elf).T
    told = np.unique(np.column_stack((functions, names))[elf.are_code(functions)], axis=0)
    texts = [elf.text_at(at) or "" for at in told[:, 1].tolist()]
    are_names = np.array([bool(_IDENTIFIER.fullmatch(text)) for text in texts], bool)
    functions, first, counts = np.unique(told[are_names, 0], return_index=True, return_counts=True)
    texts = [text for text, is_name in zip(texts, are_names.tolist(), strict=True) if is_name]
    spans = zip(first.tolist(), counts.tolist(), strict=True)
    one_name = np.array([len(set(texts[at : at + count])) == 1 for at, count in spans], bool)
    return Kernels(elf, functions[one_name], told[are_names, 1][first[one_name]])


def find_handles(elf: ElfFile, kernels: Kernels) -> Handles:
    """The variables with the handles of a file's kernels."""
    some, _ = handles_within(elf, kernels, kernels.sample(_SOME))
    functions = kernels.functions if len(some.addresses) else _EMPTY  # most kernels are launched without a handle
    _, handles = handles_within(elf, kernels, functions)
    variables, first = np.unique(handles.variables, return_index=True)
    return Handles(variables, handles.functions[first])


def handles_within(elf: ElfFile, kernels: Kernels, functions: Array) -> tuple[Calls, Handles]:
    """The calls in functions that pass a variable and a kernel's host function; and these two.

    Such a call is `__cudaGetKernel(&handle, host_function)`. It is in the function that launches the kernel: the host
    function or, in unoptimized code, a function that it calls.
    """
    asking, found, missing = [NO_CALLS], [np.empty((0, 2), np.int64)], functions
    for depth in range(DEEPEST):
        if not len(missing):
            break
        calls = calls_from(elf, missing, depth, kernels.functions)
        passed = calls.passed((RDI, RSI), elf)
        asks = np.isin(passed[:, 1], kernels.functions) & elf.are_data(passed[:, 0])
        asking.append(calls.only(asks))
        found.append(passed[asks])
        missing = np.setdiff1d(missing, passed[asks, 1])
    variables, asked_for = np.concatenate(found).T
    return joined(asking), Handles(variables, asked_for)


def _entries_of(elf: ElfFile) -> tuple[list[int], list[int]]:
    """How kernels are registered: addresses that are called, and variables with such addresses."""
    own = elf.functions([REGISTER])
    entries = [address for offset in own.values() if (address := elf.address_of(offset)) is not None]
    slots = elf.slots(REGISTER)
    return entries + stubs(elf, slots), slots


def _calls_of(elf: ElfFile, entries: Sequence[int], slots: Sequence[int]) -> Calls:
    """All direct calls to these addresses, and all calls through these variables."""
    found = [NO_CALLS]
    for piece in pieces(elf) if entries or slots else ():
        found.append(piece.calls_to(entries))
        if slots:
            found.append(piece.calls_by(slots))
    return joined(found)


def _called_to_register(elf: ElfFile) -> list[int]:
    """The function most often called with the arguments of a registration, for a runtime without symbols."""
    votes: Counter[int] = Counter()
    for piece in pieces(elf):
        calls = piece.calls_behind(_LOADS_OF_IT, _NEAR, elf)
        calls = calls.only(slice(None, None, 1 + len(calls.addresses) // _SAMPLE))
        values, stored = calls.arguments((RSI, RDX, R8))
        functions, names, limits = values.T
        registers = (elf.are_code(functions) | stored[:, 0]) & (names != UNKNOWN) & (limits == _NO_LIMIT)
        texts = {at: elf.text_at(at) or "" for at in names[registers].tolist()}
        votes.update(
            target
            for target, name in zip(calls.targets[registers].tolist(), names[registers].tolist(), strict=True)
            if _IDENTIFIER.fullmatch(texts[name])
        )
    return [target for target, _ in votes.most_common(1)]
