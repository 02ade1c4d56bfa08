"""Finds calls in x86-64 machine code and the constants that they pass, without disassembling all of the code.

A call is found by its bytes, which may also be in the middle of another instruction. Then the code before the call is
read backwards, instruction by instruction, as long as these are instructions with which compilers pass arguments.
Anything else ends the reading: a jump, another call, or the first instruction of a function. So an argument is either
right or unknown. Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scope_bpf.code.elf import ElfFile

Array = np.ndarray[Any, np.dtype[Any]]

# Register numbers as encoded in instructions
RDX, RSI, RDI, R8 = 2, 6, 7, 8
UNKNOWN = -1  # an argument that was not found

_CHUNK = 8 << 20  # bytes searched at once
_MOST_CODE = 4 << 30  # bytes searched per file
_WINDOW = 160  # bytes before a call that are searched for its arguments
_MOST_STEPS = 40  # instructions before a call
_MOST_CALLS = 4096  # calls processed at once
_CERTAIN = 18  # number of bits that rarely match by chance
_CALL = 5  # bytes of call rel32
_BODY = 1024  # bytes read per function
DEEPEST = 3  # nested functions around a launch in unoptimized code

# The value that an instruction writes to its register
_ADDRESS, _STORED, _COPY, _NUMBER, _ONES, _ELSE = range(6)
_NONE, _REG, _RM = range(3)  # the written register: none, ModRM.reg, or ModRM.rm (or in the opcode)


@dataclass(frozen=True)
class _Form:
    """An instruction form: places, masks and values of its bytes; the value that it writes, and its register."""

    length: int
    tests: tuple[tuple[int, int, int], ...]
    rex: bool
    registers_at: int
    writes: int
    gives: int


def _form(
    rex: int, opcode: str, modrm: tuple[int, int] | None, tail: int, *, writes: int = _NONE, gives: int = _ELSE
) -> _Form:
    """An instruction form.

    Args:
        rex: the REX prefix; register bits that are 0 match any value; 0: no prefix.
        opcode: the bytes in hexadecimal; a final `+` means that the low three bits are a register.
        modrm: mask and value of the ModRM byte; None: no such byte. With %rsp as base, a SIB byte follows.
        tail: number of bytes after that: displacement and immediate.
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
    # Instructions that pass constants
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
        yield _form(rex, "83", (0xF8, 0xC8), 1, writes=_RM, gives=_ONES)  # or $imm8; -1 in the cases of interest
    # Instructions between them: the stack
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
    yield _form(plain, "67", None, 0)  # a prefix added by the linker when it converts a call through a variable
    yield _form(plain, "0f57", any_two, 0)  # xorps
    yield _form(plain, "660fef", any_two, 0)  # pxor
    yield _form(plain, "c5f857", any_two, 0)  # vxorps
    yield _form(plain, "c5f877", None, 0)  # vzeroupper


# The end of an instruction may look like another one: first the least likely to match by chance, then the longest
_FORMS = sorted(_forms(), key=lambda form: (min(_bits(form), _CERTAIN), form.length), reverse=True)
_LONGEST = max(form.length for form in _FORMS)
_DOUBTFUL = np.array([form.length > 2 and _bits(form) < _CERTAIN for form in _FORMS])
_LENGTHS = np.array([form.length for form in _FORMS])
_REXES = np.array([form.rex for form in _FORMS])
_REGISTERS_AT = np.array([form.registers_at for form in _FORMS])
_WRITES = np.array([form.writes for form in _FORMS])
_GIVES = np.array([form.gives for form in _FORMS])


def _compared() -> tuple[Array, Array]:
    """Masks and values of the bytes that each form ends with, as two words, shape (forms, 2)."""
    masks, values = np.zeros((2, len(_FORMS), 16), np.uint8)
    for number, form in enumerate(_FORMS):
        for place, mask, value in form.tests:
            masks[number, place - form.length], values[number, place - form.length] = mask, value
    return masks.view(np.uint64), values.view(np.uint64)


_MASKS, _VALUES = _compared()


@dataclass(frozen=True, eq=False)
class Calls:
    """A sequence of calls.

    Attributes:
        addresses: addresses of the calls, shape (calls,).
        targets: target of each call, shape (calls,).
        before: the code before each call, uint8, shape (calls, _WINDOW); zeros if there is none.
    """

    addresses: Array
    targets: Array
    before: Array

    def only(self, wanted: Array | slice) -> "Calls":
        """The selected calls; `wanted` is bool with shape (calls,), or a slice."""
        return Calls(self.addresses[wanted], self.targets[wanted], self.before[wanted])

    def arguments(self, registers: Sequence[int]) -> tuple[Array, Array]:
        """The constants in these registers, int64, shape (calls, registers); UNKNOWN if not a constant.

        Returns:
            The constants, and for each whether it is the address of a variable whose value is passed.
        """
        shape = len(self.addresses), len(registers)
        values, stored = np.full(shape, UNKNOWN), np.zeros(shape, bool)
        for begin in range(0, len(self.addresses), _MOST_CALLS):
            part = slice(begin, begin + _MOST_CALLS)
            _read_backwards(self.addresses[part], self.before[part], registers, values[part], stored[part])
        return values, stored

    def passed(self, registers: Sequence[int], elf: ElfFile) -> Array:
        """The constants; for variables in the global offset table, the address that the loader stores there."""
        values, stored = self.arguments(registers)
        values[stored] = elf.pointers_at(values[stored])
        return values


NO_CALLS = Calls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, _WINDOW), np.uint8))


def _read_backwards(addresses: Array, before: Array, registers: Sequence[int], values: Array, stored: Array) -> None:
    """Fills `values` and `stored`, both of shape (calls, registers)."""
    code = np.pad(before.T, ((2 * _LONGEST, 0), (0, 0)))  # a row has one byte of every call
    holder = np.tile(
        np.array(registers), (len(addresses), 1)
    )  # the register that holds the argument at this point; -1: done
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
    """The instruction form that ends at each place, shape (calls,); -1: none of the known forms.

    If several forms match, the form is chosen before which another instruction ends.
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
    """The first form after `beyond` that each column of bytes ends with; -1: none."""
    ends = np.zeros((last.shape[1], 16), np.uint8)
    ends[:, -_LONGEST:] = last[-_LONGEST:].T
    words = ends.view(np.uint64)
    matches = (words[:, 1:] & _MASKS[:, 1]) == _VALUES[:, 1]
    rows, forms = np.nonzero(matches & (np.arange(len(_FORMS)) > beyond[:, np.newaxis]))
    whole = (words[rows, 0] & _MASKS[forms, 0]) == _VALUES[forms, 0]
    found = np.full(last.shape[1], -1)
    found[rows[whole][::-1]] = forms[whole][::-1]  # the last one assigned stays
    return found


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of a file's code, to search for calls.

    Attributes:
        address: address of the first byte.
        code: the bytes, preceded by _WINDOW bytes of earlier code or zeros, and followed by the length of a call.
    """

    address: int
    code: Array

    def calls_to(self, entries: Sequence[int]) -> Calls:
        """The calls (call rel32) to these addresses."""
        at = np.flatnonzero(self.code[_WINDOW : 1 - _CALL] == 0xE8) + _WINDOW
        targets = self._behind(at, _CALL)
        wanted = np.isin(targets, entries)
        return self._calls(at[wanted], targets[wanted])

    def calls_by(self, slots: Sequence[int]) -> Calls:
        """The calls through these variables (call *disp32(%rip)); the variables are the targets."""
        at = np.flatnonzero(self.code[_WINDOW:-_CALL] == 0xFF) + _WINDOW
        at = at[self.code[at + 1] == 0x15]
        used = self._behind(at, _CALL + 1)
        wanted = np.isin(used, slots)
        return self._calls(at[wanted], used[wanted])

    def calls_behind(self, texts: Sequence[bytes], distance: int, elf: ElfFile) -> Calls:
        """Possible calls, at most `distance` bytes after one of these byte strings."""
        whole = self.code.tobytes()
        places = np.array([match.start() for text in texts for match in re.finditer(re.escape(text), whole)], np.int64)
        near = (places[:, np.newaxis] + np.arange(1, distance + 1)).ravel()
        near = near[(near >= _WINDOW) & (near <= len(self.code) - _CALL)]
        return self._calls_of_code(np.unique(near[self.code[near] == 0xE8]), elf)

    def calls(self, elf: ElfFile) -> Calls:
        """Possible calls: call rel32 to an address in code."""
        return self._calls_of_code(np.flatnonzero(self.code[_WINDOW : 1 - _CALL] == 0xE8) + _WINDOW, elf)

    def _calls_of_code(self, at: Array, elf: ElfFile) -> Calls:
        targets = self._behind(at, _CALL)
        are_code = elf.are_code(targets)
        return self._calls(at[are_code], targets[are_code])

    def _behind(self, at: Array, length: int) -> Array:
        """The addresses that instructions refer to, whose displacement is at their end."""
        return self.address - _WINDOW + at + length + _numbers(self.code, at + length - 4)

    def _calls(self, at: Array, targets: Array) -> Calls:
        before = np.lib.stride_tricks.sliding_window_view(self.code, _WINDOW)
        return Calls(self.address - _WINDOW + at, targets, before[at - _WINDOW])


def _numbers(code: Array, at: Array) -> Array:
    """The signed 32-bit numbers at these places."""
    return np.ndarray(max(0, len(code) - 3), "<i4", code, strides=(1,))[at].astype(np.int64)


def pieces(elf: ElfFile) -> Iterator[Piece]:
    """All code of a file in pieces; each call is in exactly one."""
    left = min(elf.size, _MOST_CODE)  # a damaged file may list the same bytes as code many times
    for part in elf.code:
        size = min(part.size, left)
        left -= size
        for begin in elf.effort.on(range(0, size, _CHUNK)):
            first = max(0, begin - _WINDOW)
            data = elf.read(part.offset + first, min(begin + _CHUNK + _CALL - 1, size) - first)
            code = np.frombuffer(bytes(_WINDOW - begin + first) + data, np.uint8)
            if len(code) > _WINDOW + _CALL:
                yield Piece(part.address + begin, code)


def calls_within(elf: ElfFile, functions: Array, beginnings: Array) -> Calls:
    """Possible calls in functions; only the first part of each function is read.

    Args:
        functions: addresses of the functions.
        beginnings: sorted start addresses of functions, at which reading a function ends.
    """
    found = [NO_CALLS]
    following = np.append(beginnings, sys.maxsize)[np.searchsorted(beginnings, functions, "right")]
    for function, end in zip(functions.tolist(), following.tolist(), strict=True):
        address, data = function, elf.read_at(function, min(end - function, _BODY))
        if data[:1] == b"\xe9" and len(data) >= _CALL:  # continues at another address
            address += _CALL + int.from_bytes(data[1:_CALL], "little", signed=True)
            data = elf.read_at(address, _BODY)
        if len(data) > _CALL:
            found.append(Piece(address, np.frombuffer(bytes(_WINDOW) + data, np.uint8)).calls(elf))
    return joined(found)


def calls_from(elf: ElfFile, functions: Array, depth: int, beginnings: Array) -> Calls:
    """Possible calls in the callees of functions, in their callees, and so on, up to `depth`."""
    for _ in range(depth):
        functions = np.unique(calls_within(elf, functions, beginnings).targets)
    return calls_within(elf, functions, beginnings)


def stubs(elf: ElfFile, slots: Sequence[int]) -> list[int]:
    """Addresses in the procedure linkage table that jump through these slots of the loader."""
    found: list[int] = []
    for address, data in elf.sections(".plt") if slots else ():
        code = np.frombuffer(data, np.uint8)
        at = np.flatnonzero((code[:-5] == 0xFF) & (code[1:-4] == 0x25))  # jmp *disp32(%rip)
        jumps = address + at
        for jump in jumps[np.isin(jumps + 6 + _numbers(code, at + 2), slots)].tolist():
            found += (jump, jump - 4, jump - 5)  # a stub may begin with endbr64 and bnd
    return found


def joined(calls: Sequence[Calls]) -> Calls:
    """All calls in one sequence."""
    return Calls(
        *(np.concatenate([getattr(one, name) for one in calls]) for name in ("addresses", "targets", "before"))
    )
