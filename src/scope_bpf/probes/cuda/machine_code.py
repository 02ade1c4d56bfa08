"""Calls in x86-64 machine code, and what is passed in them, found without disassembling all of it.

A pattern may also be met in the middle of an instruction, so whoever uses what is found here has to ask whether it
makes sense: whether the address that is passed is a function's, or a name's.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scope_bpf.code.elf import ElfFile

# The first bytes of instructions with a disp32(%rip) behind them: lea and mov to any register
LEA, MOV = 0x8D, 0x8B

_CHUNK = 8 << 20  # bytes that are looked through at once
_MOST_CODE = 4 << 30  # bytes of a file that are looked through
_WINDOW = 96  # bytes before a call in which its arguments are loaded
_LONGEST = 8  # bytes of the instructions that are looked for

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Register:
    """How a register that passes an argument gets an address that is relative to the code, and from %rax.

    Attributes:
        load: lea disp32(%rip): the address itself.
        fetch: mov disp32(%rip): what the global offset table has there.
        copy: mov %rax: how compilers that do not optimize pass arguments.
    """

    load: bytes
    fetch: bytes
    copy: bytes


RDI = Register(b"\x48\x8d\x3d", b"\x48\x8b\x3d", b"\x48\x89\xc7")
RSI = Register(b"\x48\x8d\x35", b"\x48\x8b\x35", b"\x48\x89\xc6")
RDX = Register(b"\x48\x8d\x15", b"\x48\x8b\x15", b"\x48\x89\xc2")
_LOAD_RAX = b"\x48\x8d\x05"


@dataclass(frozen=True)
class Call:
    """A call: its address, what it calls, and the code before it, in which its arguments are loaded.

    Attributes:
        before: up to the call before of those that were asked for: a call leaves no argument register as it was.
        own: up to the call before, whatever it calls. Something that looks like a call may cut it short.
    """

    address: int
    target: int
    before: bytes
    own: bytes

    def passed(self, register: Register, elf: ElfFile) -> int | None:
        """The address that is passed in a register; None if it gets there in no way that is known here."""
        at, how = max((self.before.rfind(how), how) for how in (register.load, register.fetch, register.copy))
        if at < 0:
            return None
        if how == register.copy:
            at -= 7
            return self._address_behind(at) if self.before[max(at, 0) : at + 3] == _LOAD_RAX else None
        address = self._address_behind(at)
        return elf.pointer_at(address) if how == register.fetch and address is not None else address

    def _address_behind(self, at: int) -> int | None:
        if at < 0 or at + 7 > len(self.before):
            return None
        displacement = int.from_bytes(self.before[at + 3 : at + 7], "little", signed=True)
        return self.address - len(self.before) + at + 7 + displacement


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of a file's code.

    Attributes:
        address: of its first byte.
        all_code: where the file has code, from and to which address.
    """

    address: int
    code: Bytes
    all_code: tuple[tuple[int, int], ...]

    def displacements(self, at: Any) -> Any:
        """The signed 32-bit numbers at some places."""
        value = sum(self.code[at + n].astype(np.uint32) << np.uint32(8 * n) for n in range(4))
        return np.asarray(value, np.uint32).view(np.int32).astype(np.int64)

    @cached_property
    def direct_calls(self) -> tuple[Any, Any]:
        """Where `call rel32` stands, and the address that each calls."""
        at = np.flatnonzero(self.code[:-4] == 0xE8)
        targets = self.address + at + 5 + self.displacements(at + 1)
        is_code = np.zeros(len(at), bool)
        for begin, end in self.all_code:
            is_code |= (targets >= begin) & (targets < end)
        return at[is_code], targets[is_code]

    def uses_of(self, addresses: Any, operation: int) -> Any:
        """Where a 64-bit register gets one of these addresses (LEA), or what is stored there (MOV)."""
        at = np.flatnonzero((self.code[:-7] == 0x48) & (self.code[1:-6] == operation))
        return at[np.isin(self.address + at + 7 + self.displacements(at + 3), addresses)]

    def calls(self, wanted: Any) -> Iterator[Call]:
        """Some of the direct calls, in order; shape (calls,), bool."""
        at, targets = self.direct_calls
        end = 0  # of the call before of these
        for index in np.flatnonzero(wanted).tolist():
            place = int(at[index])
            begin = max(end, place - _WINDOW)
            own = max(begin, int(at[index - 1]) + 5 if index else 0)
            before, behind = self.code[begin:place].tobytes(), self.code[own:place].tobytes()
            yield Call(self.address + place, int(targets[index]), before, behind)
            end = place + 5

    def calls_behind(self, places: Any) -> Iterator[Call]:
        """The calls that stand less than a window behind any of these places."""
        if len(places):
            at, _ = self.direct_calls
            after = np.searchsorted(places, at)
            yield from self.calls((after > 0) & (at - places[np.maximum(after - 1, 0)] <= _WINDOW))


def pieces(elf: ElfFile) -> Iterator[Piece]:
    """All of a file's code; pieces overlap by what belongs to one call."""
    all_code = tuple((part.address, part.address + part.size) for part in elf.segments if part.executable)
    left = min(elf.size, _MOST_CODE)  # a damaged file may say of the same bytes again and again that they are code
    for part in elf.segments:
        size = min(part.size, left) if part.executable else 0
        left -= size
        for begin in range(0, size, _CHUNK):
            first = max(0, begin - _WINDOW - _LONGEST)
            data = elf.read(part.offset + first, min(begin + _CHUNK, size) - first)
            if len(data) > _LONGEST:
                yield Piece(part.address + first, np.frombuffer(data, np.uint8), all_code)


def entries_of(elf: ElfFile, name: str) -> set[int]:
    """What is called to get to a function: itself, or its stubs in the procedure linkage table."""
    own = elf.functions([name])
    if own:
        address = elf.address_of(own[name])
        return set() if address is None else {address}
    slots = elf.slots(name)
    entries = set()
    for piece in pieces(elf) if slots else ():
        at = np.flatnonzero((piece.code[:-5] == 0xFF) & (piece.code[1:-4] == 0x25))  # jmp *disp32(%rip)
        jumps = piece.address + at
        for jump in jumps[np.isin(jumps + 6 + piece.displacements(at + 2), slots)].tolist():
            entries |= {jump, jump - 4, jump - 5}  # the stub may begin with endbr64, and bnd
    return entries


def calls_to(elf: ElfFile, entries: Collection[int]) -> Iterator[Call]:
    """Every direct call of these addresses; one where pieces overlap comes twice."""
    wanted = np.array(sorted(entries), np.int64)
    for piece in pieces(elf) if entries else ():
        _, targets = piece.direct_calls
        yield from piece.calls(np.isin(targets, wanted))
