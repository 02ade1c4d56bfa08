"""Which kernel each host function launches, from the code that nvcc makes to register them; x86-64.

A program tells the runtime of every kernel once, by `__cudaRegisterFunction(module, host_function, name, name, -1,
...)` (crt/host_runtime.h): both addresses are loaded right before the call. That stands in the file whether or not it
was stripped, however the runtime was linked.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scope_bpf.elf import X86_64, ElfFile, Segment

REGISTER = "__cudaRegisterFunction"
GET_KERNEL = "__cudaGetKernel"
FATBIN = ".nv_fatbin"  # section of every file that has kernels

_LOAD_RDI = b"\x48\x8d\x3d"  # lea disp32(%rip),%rdi
_LOAD_RSI = b"\x48\x8d\x35"
_LOAD_RDX = b"\x48\x8d\x15"
_LOAD_RAX = b"\x48\x8d\x05"
_RAX_TO_RDI = b"\x48\x89\xc7"  # mov %rax,%rdi: how compilers that do not optimize pass arguments
_RAX_TO_RSI = b"\x48\x89\xc6"
_NO_LIMIT = b"\x41\xb8\xff\xff\xff\xff"  # mov $-1,%r8d
_CHUNK = 8 << 20
_BEHIND = 8  # bytes of a chunk's end that an instruction may take
_WINDOW = 96  # bytes before a call in which its arguments are loaded

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Call:
    """A call: its address, what it calls, and the code before it up to the call before."""

    address: int
    target: int
    before: bytes

    def loaded(self, instruction: bytes) -> int | None:
        """The address that the last such instruction before the call loads."""
        at = self.before.rfind(instruction)
        if at < 0 or at + 7 > len(self.before):
            return None
        displacement = int.from_bytes(self.before[at + 3 : at + 7], "little", signed=True)
        return self.address - len(self.before) + at + 7 + displacement

    def passed(self, directly: bytes, from_rax: bytes) -> int | None:
        """The address that is passed in a register, loaded there at once or by way of %rax."""
        at = self.before.rfind(from_rax)
        if at >= 7 and self.before[at - 7 : at - 4] == _LOAD_RAX and self.before.rfind(directly) < at:
            displacement = int.from_bytes(self.before[at - 4 : at], "little", signed=True)
            return self.address - len(self.before) + at + displacement
        return self.loaded(directly)


def find_kernels(elf: ElfFile) -> dict[int, str]:
    """The (mangled) names of kernels by the address of the host function that launches each."""
    if elf.machine != X86_64:
        return {}
    entries = _entries(elf, REGISTER)
    calls = list(_calls(elf, entries)) if entries else _calls_by_their_arguments(elf)
    found = {}
    for call in calls:
        function, name_at = call.passed(_LOAD_RSI, _RAX_TO_RSI), call.loaded(_LOAD_RDX)
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
    entries = _entries(elf, GET_KERNEL)
    calls = _calls(elf, entries) if entries else _calls_with_kernels(elf, kernels)
    found = {}
    for call in calls:
        variable = call.passed(_LOAD_RDI, _RAX_TO_RDI)
        function = call.passed(_LOAD_RSI, _RAX_TO_RSI)
        if variable is not None and function is not None and function in kernels and elf.is_data(variable):
            found[variable] = function
    return found


def _entries(elf: ElfFile, name: str) -> set[int]:
    """What is called to get to a function: itself, or its stubs in the procedure linkage table."""
    own = elf.functions([name])
    if own:
        address = elf.address_of(own[name])
        return set() if address is None else {address}
    slots = elf.slots(name)
    entries = set()
    for part, code, base in _chunks(elf) if slots else ():
        (at,) = np.nonzero((code[:-1] == 0xFF) & (code[1:] == 0x25))  # jmp *disp32(%rip)
        at = at[at + 6 <= len(code)]
        jumps = part.address + base + at
        for jump in jumps[np.isin(jumps + 6 + _displacements(code, at + 2), slots)].tolist():
            entries |= {jump, jump - 4, jump - 5}  # the stub may begin with endbr64, and bnd
    return entries


def _chunks(elf: ElfFile, behind: int = _BEHIND) -> Iterator[tuple[Segment, Bytes, int]]:
    """The code of a file in pieces that overlap: segment, bytes, where in the segment they begin."""
    for part in elf.segments:
        if part.executable:
            for begin in range(0, part.size, _CHUNK):
                first = max(0, begin - behind)
                data = elf.read(part.offset + first, min(begin + _CHUNK, part.size) - first)
                if len(data) > _BEHIND:
                    yield part, np.frombuffer(data, np.uint8), first


def _displacements(code: Bytes, at: Any) -> Any:
    """Signed 32-bit numbers at any places."""
    value = sum(code[at + n].astype(np.uint32) << np.uint32(8 * n) for n in range(4))
    return np.asarray(value, np.uint32).view(np.int32).astype(np.int64)


def _direct_calls(code: Bytes, address: int) -> tuple[Any, Any]:
    """Where `call rel32` may stand in the code, and what each calls."""
    (at,) = np.nonzero(code[: len(code) - 4] == 0xE8)
    return at, address + at + 5 + _displacements(code, at + 1)


def _calls(elf: ElfFile, entries: set[int]) -> Iterator[Call]:
    wanted = np.array(sorted(entries), np.int64)
    seen: set[int] = set()
    for part, code, base in _chunks(elf, _WINDOW + _BEHIND) if entries else ():
        at, targets = _direct_calls(code, part.address + base)
        places = np.isin(targets, wanted)
        yield from _with_code_before(code, part.address + base, at[places], targets[places], seen)


def _with_code_before(code: Bytes, address: int, at: Any, targets: Any, seen: set[int]) -> Iterator[Call]:
    end = 0  # of the call before
    for place, target in zip(at.tolist(), targets.tolist(), strict=True):
        if address + place not in seen:
            seen.add(address + place)
            yield Call(address + place, target, code[max(end, place - _WINDOW) : place].tobytes())
        end = place + 5


def _calls_by_their_arguments(elf: ElfFile) -> list[Call]:
    """The calls of what is called most in the way that kernels are registered: where the runtime has no names."""
    by_target: dict[int, list[Call]] = {}
    seen: set[int] = set()
    for part, code, base in _chunks(elf, _WINDOW + _BEHIND):
        limits = np.flatnonzero((code[:-1] == _NO_LIMIT[0]) & (code[1:] == _NO_LIMIT[1]))
        for call in _calls_behind(code, part.address + base, limits, seen):
            if _NO_LIMIT in call.before and _LOAD_RDX in call.before and elf.is_code(call.target):
                by_target.setdefault(call.target, []).append(call)
    return max(by_target.values(), key=len, default=[])


def _calls_with_kernels(elf: ElfFile, kernels: Collection[int]) -> Iterator[Call]:
    """Calls before which the address of a host function is loaded, whoever is called."""
    wanted = np.array(sorted(kernels), np.int64)
    seen: set[int] = set()
    for part, code, base in _chunks(elf, _WINDOW + _BEHIND) if kernels else ():
        at = np.flatnonzero((code[:-7] == 0x48) & (code[1:-6] == 0x8D))  # lea disp32(%rip), of any register
        loaded = part.address + base + at + 7 + _displacements(code, at + 3)
        yield from _calls_behind(code, part.address + base, at[np.isin(loaded, wanted)], seen)


def _calls_behind(code: Bytes, address: int, places: Any, seen: set[int]) -> Iterator[Call]:
    """The calls that stand less than a window behind any of these places."""
    if not len(places):
        return
    at, targets = _direct_calls(code, address)
    after = np.searchsorted(places, at)
    near = (after > 0) & (at - places[np.maximum(after - 1, 0)] <= _WINDOW)
    yield from _with_code_before(code, address, at[near], targets[near], seen)
