"""Functions of a runtime that is linked into a program whose names were stripped; x86-64, CUDA 13.

The code that launches a kernel asks once for its handle, `__cudaGetKernel(&handle, host_function)`, and then calls
`__cudaLaunchKernel(handle, ...)` (crt/host_runtime.h), which does nothing but go on to cudaLaunchKernel. Registered
kernels are known (`find_kernels`), so both calls are found by their arguments. Memory and copies have no such mark: of
these only the driver's own calls are seen.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.probes.cuda.machine_code import MOV, pieces
from scope_bpf.probes.cuda.registrations import GET_KERNEL, calls_with_kernels, handles_of

_GO_ON = b"\x55\x48\x89\xe5\x5d\xe9"  # push %rbp; mov %rsp,%rbp; pop %rbp; jmp rel32: all of __cudaLaunchKernel
_HELPER = 128  # bytes of a function that compilers that do not optimize put in between


def find_launch_functions(elf: ElfFile, kernels: Mapping[int, str]) -> dict[str, int]:
    """Offsets of `cudaLaunchKernel` and `__cudaGetKernel`, as far as they are found beyond doubt."""
    if elf.machine != X86_64:
        return {}
    asked = list(handles_of(elf, calls_with_kernels(elf, kernels), kernels))
    variables = np.array(sorted({variable for _, variable, _ in asked}), np.int64)
    askers = Counter(call.target for call, _, _ in asked)
    launchers: Counter[int] = Counter()
    for piece in pieces(elf) if len(variables) else ():
        for call in piece.calls_behind(piece.uses_of(variables, MOV)):
            launcher = _gone_on_to(elf, call.target)
            if launcher is not None:
                launchers[launcher] += 1
    found = {GET_KERNEL: askers, "cudaLaunchKernel": launchers}
    offsets = {name: elf.offset_of(next(iter(counts))) for name, counts in found.items() if len(counts) == 1}
    return {name: offset for name, offset in offsets.items() if offset is not None}


def _gone_on_to(elf: ElfFile, address: int) -> int | None:
    """What `__cudaLaunchKernel` goes on to, if that is what lies at an address, or is called from there."""
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
