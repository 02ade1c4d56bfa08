"""Calls in x86-64 machine code, and the constants that are passed in them, found without disassembling all of it.

A call is found by its bytes, which may also lie in the middle of another instruction. The code before a call is then
read backwards, instruction by instruction, of the kinds that compilers use to pass arguments. Anything else ends the
reading: a jump, another call, a function's first instruction. So an argument is right, or it is not known.
Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scope_bpf.code.elf import ElfFile

Array = np.ndarray[Any, np.dtype[Any]]

# Numbers of registers, as instructions have them
RDX, RSI, RDI, R8 = 2, 6, 7, 8
UNKNOWN = -1  # an argument that is not found

_CHUNK = 8 << 20  # bytes that are looked through at once
_MOST_CODE = 4 << 30  # bytes of a file that are looked through
_WINDOW = 160  # bytes before a call in which its arguments are loaded
_MOST_STEPS = 40  # instructions before a call
_MOST_CALLS = 4096  # that are read at once
_CERTAIN = 18  # bits that are hardly met by chance
_CALL = 5  # bytes of call rel32
_BODY = 1024  # bytes of a function that are read
DEEPEST = 3  # functions that compilers which do not optimize put around a launch

# What an instruction gives to the register that it writes
_ADDRESS, _STORED, _COPY, _NUMBER, _ONES, _ELSE = range(6)
_NONE, _REG, _RM = range(3)  # which register it writes: none, that of ModRM.reg, that of ModRM.rm or of the opcode


@dataclass(frozen=True)
class _Form:
    """A form of instruction: places, masks and values of the bytes that make it; what it writes, and where."""

    length: int
    tests: tuple[tuple[int, int, int], ...]
    rex: bool
    registers_at: int
    writes: int
    gives: int


def _form(
    rex: int, opcode: str, modrm: tuple[int, int] | None, tail: int, *, writes: int = _NONE, gives: int = _ELSE
) -> _Form:
    """A form of instruction.

    Args:
        rex: the REX prefix; if its register bits are clear they may be any; 0 if there is none.
        opcode: its bytes, hexadecimal; `+` behind the last one: the low three bits are a register.
        modrm: mask and value of the byte behind; None if there is none. A base of %rsp takes a SIB byte more.
        tail: bytes behind: displacement and immediate.
    """
    tests = [(0, 0xFF if rex & 7 else 0xF8, rex)] if rex else []
    for byte in bytes.fromhex(opcode.rstrip("+")):
        tests.append((len(tests), 0xFF, byte))
    if opcode.endswith("+"):
        tests[-1] = (tests[-1][0], 0xF8, tests[-1][2])
    registers_at = len(tests) - (modrm is None)
    if modrm:
        tests.append((len(tests), *modrm))
        if modrm[1] & 0xC0 != 0xC0 and modrm[1] & 7 == 4:
            tests.append((len(tests), 0xFF, 0x24))
    return _Form(len(tests) + tail, tuple(tests), bool(rex), registers_at, writes, gives)


def _bits(form: _Form) -> int:
    return sum(mask.bit_count() for _, mask, _ in form.tests)


def _forms() -> Iterator[_Form]:
    any_two, relative = (0xC0, 0xC0), (0xC7, 0x05)
    wide, narrow, high, plain = 0x48, 0x40, 0x41, 0
    # What passes constants
    yield _form(wide, "8d", relative, 4, writes=_REG, gives=_ADDRESS)  # lea disp32(%rip)
    yield _form(wide, "8b", relative, 4, writes=_REG, gives=_STORED)  # mov disp32(%rip)
    yield _form(wide, "89", any_two, 0, writes=_RM, gives=_COPY)
    yield _form(wide, "c7", (0xF8, 0xC0), 4, writes=_RM, gives=_NUMBER)
    for rex in (narrow, plain):
        yield _form(rex, "31", any_two, 0, writes=_RM)  # xor
        yield _form(rex, "89", any_two, 0, writes=_RM)
    for rex in (high, plain):
        yield _form(rex, "b8+", None, 4, writes=_RM, gives=_NUMBER)
        yield _form(rex, "50+", None, 0)  # push
        yield _form(rex, "58+", None, 0, writes=_RM)  # pop
    for rex in (wide, narrow, plain):
        yield _form(rex, "83", (0xF8, 0xC8), 1, writes=_RM, gives=_ONES)  # or $imm8, which is -1 where anybody asks
    # What stands between: the stack
    yield _form(plain, "6a", None, 1)  # push $imm8
    for operation in (0xC4, 0xEC):  # add and sub, %rsp
        yield _form(wide, "83", (0xFF, operation), 1)
        yield _form(wide, "81", (0xFF, operation), 4)
    for modrm, displacement in ((0x44, 1), (0x84, 4), (0x04, 0), (0x45, 1), (0x85, 4)):  # of %rsp and %rbp
        operand = (0xC7, modrm)
        for rex in (wide, narrow, plain):
            yield _form(rex, "8b", operand, displacement, writes=_REG)
            yield _form(rex, "89", operand, displacement)
            yield _form(rex, "c7", (0xFF, modrm), displacement + 4)
        yield _form(wide, "8d", operand, displacement, writes=_REG)
        yield _form(plain, "ff", (0xFF, modrm | 0x30), displacement)  # push
        for opcode in ("0f10", "0f28", "0f11", "0f29", "f30f6f", "f30f7f", "660f6f", "660f7f"):  # of %xmm
            yield _form(plain, opcode, operand, displacement)
        for opcode in ("c5f811", "c5f829", "c5fc11", "c5fc29"):  # of %xmm and %ymm, to memory
            yield _form(plain, opcode, operand, displacement)
    yield _form(wide, "89", relative, 4)  # a store
    yield _form(plain, "67", None, 0)  # a prefix of a call that a linker made of one by a variable
    yield _form(plain, "0f57", any_two, 0)  # xorps
    yield _form(plain, "660fef", any_two, 0)  # pxor
    yield _form(plain, "c5f857", any_two, 0)  # vxorps
    yield _form(plain, "c5f877", None, 0)  # vzeroupper


# The end of an instruction may look like another: the least likely to be met by chance comes first, then the longest
_FORMS = sorted(_forms(), key=lambda form: (min(_bits(form), _CERTAIN), form.length), reverse=True)
_LONGEST = max(form.length for form in _FORMS)
_DOUBTFUL = np.array([form.length > 2 and _bits(form) < _CERTAIN for form in _FORMS])
_LENGTHS = np.array([form.length for form in _FORMS])
_REXES = np.array([form.rex for form in _FORMS])
_REGISTERS_AT = np.array([form.registers_at for form in _FORMS])
_WRITES = np.array([form.writes for form in _FORMS])
_GIVES = np.array([form.gives for form in _FORMS])


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls, one behind the other.

    Attributes:
        addresses: of the calls, shape (calls,).
        targets: what each calls, shape (calls,).
        before: the code before each, uint8, shape (calls, _WINDOW); zeros where there is none.
    """

    addresses: Array
    targets: Array
    before: Array

    def only(self, wanted: Array | slice) -> "Calls":
        """Some of them; shape (calls,), bool, or a slice."""
        return Calls(self.addresses[wanted], self.targets[wanted], self.before[wanted])

    def arguments(self, registers: Sequence[int]) -> tuple[Array, Array]:
        """The constants in some registers, shape (calls, registers), int64; UNKNOWN where it is none.

        Returns:
            The constants, and whether each is the address of the variable whose value is passed.
        """
        shape = len(self.addresses), len(registers)
        values, stored = np.full(shape, UNKNOWN), np.zeros(shape, bool)
        for begin in range(0, len(self.addresses), _MOST_CALLS):
            part = slice(begin, begin + _MOST_CALLS)
            _read_backwards(self.addresses[part], self.before[part], registers, values[part], stored[part])
        return values, stored

    def passed(self, registers: Sequence[int], elf: ElfFile) -> Array:
        """The same, with what the loader stores in read-only variables (the global offset table) in their place."""
        values, stored = self.arguments(registers)
        values[stored] = elf.pointers_at(values[stored])
        return values


NO_CALLS = Calls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, _WINDOW), np.uint8))


def _read_backwards(addresses: Array, before: Array, registers: Sequence[int], values: Array, stored: Array) -> None:
    """Fills in values and stored, shape (calls, registers)."""
    code = np.pad(before.T, ((2 * _LONGEST, 0), (0, 0)))  # a byte of every call is a row
    holder = np.tile(np.array(registers), (len(addresses), 1))  # the register that the argument comes from; -1: settled
    ends = np.full(len(addresses), len(code))
    live = np.arange(len(addresses))
    for _ in range(_MOST_STEPS):
        live = live[(holder[live] >= 0).any(axis=1)]
        if not len(live):
            return
        form = _form_of(code, live, ends[live])
        live, form = live[form >= 0], form[form >= 0]
        begin = ends[live] - _LENGTHS[form]
        rex = np.where(_REXES[form], code[begin, live], 0).astype(np.int64)
        registers_byte = code[begin + _REGISTERS_AT[form], live].astype(np.int64)
        reg, rm = registers_byte >> 3 & 7 | (rex & 4) << 1, registers_byte & 7 | (rex & 1) << 3
        written = np.choose(_WRITES[form], (np.full(len(live), -2), reg, rm))
        number = np.ascontiguousarray(code[ends[live] + np.arange(-4, 0)[:, np.newaxis], live].T).view("<i4")[:, 0]
        gives = _GIVES[form]
        address = addresses[live] - (len(code) - ends[live]) + number
        plain, unknown = number.astype(np.int64) & 0xFFFFFFFF, np.full(len(live), UNKNOWN)
        value: Array = np.choose(gives, (address, address, unknown, plain, np.full(len(live), 0xFFFFFFFF), unknown))
        ends[live] -= _LENGTHS[form]
        calls, arguments = np.nonzero(holder[live] == written[:, np.newaxis])
        values[live[calls], arguments] = value[calls]
        stored[live[calls], arguments] = gives[calls] == _STORED
        holder[live[calls], arguments] = np.where(gives[calls] == _COPY, reg[calls], -1)


def _form_of(code: Array, calls: Array, ends: Array) -> Array:
    """Which form of instruction ends at some places, shape (calls,); -1 if none that is known here.

    Where bytes of one form are likely to be the end of another by chance, the one is taken that another instruction
    stands before.
    """
    last = code[ends + np.arange(-2 * _LONGEST, 0)[:, np.newaxis], calls]
    found = _match(last, np.full(len(calls), -1))
    rows = np.flatnonzero((found >= 0) & _DOUBTFUL[found])
    tried = found[rows]
    while len(rows):
        places = 2 * _LONGEST - _LENGTHS[tried] + np.arange(-_LONGEST, 0)[:, np.newaxis]
        leads_on = _match(last[places, rows], np.full(len(rows), -1)) >= 0
        found[rows[leads_on]] = tried[leads_on]
        rows, tried = rows[~leads_on], _match(last[:, rows[~leads_on]], tried[~leads_on])
        rows, tried = rows[tried >= 0], tried[tried >= 0]
    return found


def _match(last: Array, beyond: Array) -> Array:
    """The first form, behind one, that each column of bytes ends with; -1 if none."""
    found, every = np.full(last.shape[1], -1), np.arange(last.shape[1])
    for number, form in enumerate(_FORMS):
        rows = every
        for place, mask, value in reversed(form.tests):  # the first byte tells the least
            bytes_ = last[place - form.length]
            rows = rows[(bytes_ if rows is every else bytes_[rows]) & mask == value]
        rows = rows[(found[rows] < 0) & (number > beyond[rows])]
        found[rows] = number
    return found


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of a file's code, to look for calls in.

    Attributes:
        address: of its first byte.
        code: its bytes, behind _WINDOW bytes of what is before it, or of zeros; a call's length is behind it.
    """

    address: int
    code: Array

    def calls_to(self, entries: Sequence[int]) -> Calls:
        """The calls (call rel32) of these addresses."""
        at = np.flatnonzero(self.code[_WINDOW : 1 - _CALL] == 0xE8) + _WINDOW
        targets = self._behind(at, _CALL)
        wanted = np.isin(targets, entries)
        return self._calls(at[wanted], targets[wanted])

    def calls_by(self, slots: Sequence[int]) -> Calls:
        """The calls of what these variables hold (call *disp32(%rip)); the variables are the targets."""
        at = np.flatnonzero(self.code[_WINDOW:-_CALL] == 0xFF) + _WINDOW
        at = at[self.code[at + 1] == 0x15]
        used = self._behind(at, _CALL + 1)
        wanted = np.isin(used, slots)
        return self._calls(at[wanted], used[wanted])

    def calls_behind(self, texts: Sequence[bytes], distance: int, elf: ElfFile) -> Calls:
        """What may be calls of code, at most so many bytes behind any of these texts."""
        whole = self.code.tobytes()
        places = np.array([match.start() for text in texts for match in re.finditer(re.escape(text), whole)], np.int64)
        near = (places[:, np.newaxis] + np.arange(1, distance + 1)).ravel()
        near = near[(near >= _WINDOW) & (near <= len(self.code) - _CALL)]
        return self._calls_of_code(np.unique(near[self.code[near] == 0xE8]), elf)

    def calls(self, elf: ElfFile) -> Calls:
        """What may be calls of code."""
        return self._calls_of_code(np.flatnonzero(self.code[_WINDOW : 1 - _CALL] == 0xE8) + _WINDOW, elf)

    def _calls_of_code(self, at: Array, elf: ElfFile) -> Calls:
        targets = self._behind(at, _CALL)
        are_code = elf.are_code(targets)
        return self._calls(at[are_code], targets[are_code])

    def _behind(self, at: Array, length: int) -> Array:
        """What instructions refer to whose displacement is their end."""
        return self.address - _WINDOW + at + length + _numbers(self.code, at + length - 4)

    def _calls(self, at: Array, targets: Array) -> Calls:
        before = np.lib.stride_tricks.sliding_window_view(self.code, _WINDOW)
        return Calls(self.address - _WINDOW + at, targets, before[at - _WINDOW])


def _numbers(code: Array, at: Array) -> Array:
    """The signed 32-bit numbers at some places."""
    return np.ndarray(max(0, len(code) - 3), "<i4", code, strides=(1,))[at].astype(np.int64)


def pieces(elf: ElfFile) -> Iterator[Piece]:
    """All of a file's code, in pieces: each call is in one."""
    left = min(elf.size, _MOST_CODE)  # a damaged file may say of the same bytes again and again that they are code
    for part in elf.code:
        size = min(part.size, left)
        left -= size
        for begin in range(0, size, _CHUNK):
            first = max(0, begin - _WINDOW)
            data = elf.read(part.offset + first, min(begin + _CHUNK + _CALL - 1, size) - first)
            code = np.frombuffer(bytes(_WINDOW - begin + first) + data, np.uint8)
            if len(code) > _WINDOW + _CALL:
                yield Piece(part.address + begin, code)


def calls_within(elf: ElfFile, functions: Array, beginnings: Array) -> Calls:
    """What may be calls of code in functions, of which only the first part is read.

    Args:
        functions: their addresses.
        beginnings: where functions begin, in order: none that is read goes beyond.
    """
    found = [NO_CALLS]
    following = np.append(beginnings, sys.maxsize)[np.searchsorted(beginnings, functions, "right")]
    for function, end in zip(functions.tolist(), following.tolist(), strict=True):
        address, data = function, elf.read_at(function, min(end - function, _BODY))
        if data[:1] == b"\xe9" and len(data) >= _CALL:  # it goes on elsewhere
            address += _CALL + int.from_bytes(data[1:_CALL], "little", signed=True)
            data = elf.read_at(address, _BODY)
        if len(data) > _CALL:
            found.append(Piece(address, np.frombuffer(bytes(_WINDOW) + data, np.uint8)).calls(elf))
    return joined(found)


def calls_from(elf: ElfFile, functions: Array, depth: int, beginnings: Array) -> Calls:
    """The same in what functions call, in what is called there, and so on."""
    for _ in range(depth):
        functions = np.unique(calls_within(elf, functions, beginnings).targets)
    return calls_within(elf, functions, beginnings)


def stubs(elf: ElfFile, slots: Sequence[int]) -> list[int]:
    """Where the procedure linkage table jumps to what these slots of the loader have."""
    found: list[int] = []
    for address, data in elf.sections(".plt") if slots else ():
        code = np.frombuffer(data, np.uint8)
        at = np.flatnonzero((code[:-5] == 0xFF) & (code[1:-4] == 0x25))  # jmp *disp32(%rip)
        jumps = address + at
        for jump in jumps[np.isin(jumps + 6 + _numbers(code, at + 2), slots)].tolist():
            found += (jump, jump - 4, jump - 5)  # a stub may begin with endbr64, and bnd
    return found


def joined(calls: Sequence[Calls]) -> Calls:
    """All of these as one."""
    return Calls(
        *(np.concatenate([getattr(one, name) for one in calls]) for name in ("addresses", "targets", "before"))
    )
