"""Functions without names, as in stripped libraries: of the kind of those that call them. x86-64 only."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.code.function_starts import FunctionStarts

Array = np.ndarray[Any, np.dtype[Any]]

_JUMPS = (0xE8, 0xE9)  # call and jmp; a 32-bit distance from the next instruction follows
_LENGTH = 5  # bytes of such an instruction
_CHUNK = 1 << 20
_DEPTH = 4  # functions without names that call each other


def kinds_by_callers(elf: ElfFile, kinds: Mapping[int, str], unknown: str) -> dict[tuple[int, int], str]:
    """Begin and end of functions without names whose callers are of a kind, with that kind.

    Args:
        kinds: of the functions with names, by address.
        unknown: the kind of functions that tells nothing of those they call.
    """
    if elf.machine != X86_64:
        return {}
    starts, ends = FunctionStarts(elf).spans
    nameless = ~np.isin(starts, list(kinds))
    callers: dict[int, list[int]] = defaultdict(list)  # of each function without a name: where its callers begin
    for at, target in _jumps(elf, starts[nameless]):
        index = int(np.searchsorted(starts, at, "right")) - 1
        if index >= 0 and at < ends[index]:
            callers[target].append(int(starts[index]))
    found: dict[int, str] = {}
    for _ in range(_DEPTH):
        known = {**found, **kinds}
        for function, there in callers.items():
            of_callers = Counter(kind for one in there if (kind := known.get(one, unknown)) != unknown)
            if of_callers:
                found[function] = of_callers.most_common(1)[0][0]
    ends_at = dict(zip(starts.tolist(), ends.tolist(), strict=True))
    return {(start, ends_at[start]): kind for start, kind in found.items()}


def _jumps(elf: ElfFile, targets: Array) -> Iterator[tuple[int, int]]:
    """Addresses of instructions that call or jump to one of the targets, with the target."""
    for part in elf.code:
        for begin in elf.effort.on(range(0, part.size, _CHUNK)):
            data = elf.read(part.offset + begin, min(_CHUNK + _LENGTH - 1, part.size - begin))
            code = np.frombuffer(data, np.uint8)
            at = np.flatnonzero(np.isin(code[: max(0, len(code) - _LENGTH + 1)], _JUMPS))
            distances = np.ndarray(max(0, len(code) - _LENGTH + 1), "<i4", data, 1, (1,))[at].astype(np.int64)
            addresses = part.address + begin + at
            reached = addresses + _LENGTH + distances
            wanted = np.isin(reached, targets)
            yield from zip(addresses[wanted].tolist(), reached[wanted].tolist(), strict=True)
