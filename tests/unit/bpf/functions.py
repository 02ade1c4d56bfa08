"""The functions and programs of an object of BPF."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scope_bpf.layout.elf_headers import SYMBOL, Headers

# include/uapi/linux/bpf.h
INSTRUCTION = np.dtype([("code", "u1"), ("registers", "u1"), ("offset", "<i2"), ("constant", "<i4")])
LOADS, STORES = (1,), (2, 3)  # classes, in the low bits of the code
ADD_CONSTANT, COPY, CALL, LOAD_ADDRESS = 0x07, 0xBF, 0x85, 0x18
FRAME_POINTER = 10  # a register
PSEUDO_CALL = 1  # in place of the source register: calls a function of the object

# elf(5)
RELOCATION = np.dtype([("at", "<u8"), ("type", "<u4"), ("symbol", "<u4")])
FUNCTION, SECTION = 2, 3  # types of symbols

Array = np.ndarray[Any, np.dtype[Any]]
Place = tuple[int, int]  # a section, and an instruction in it


@dataclass(frozen=True, eq=False)
class Function:
    """A function of an object.

    Attributes:
        name: in the object; a program's, too.
        section: says what runs a program; of other functions, ".text" or a program's.
        code: its instructions, as `INSTRUCTION`.
        frame: bytes of stack that it uses.
        calls: the functions that it calls or passes on.
        externs: where it calls which of the kernel's functions: number of the instruction and name.
    """

    name: str
    section: str
    code: Array
    frame: int
    calls: frozenset[Place]
    externs: dict[int, str]


def functions_of(path: Path) -> dict[Place, Function]:
    """The functions of an object."""
    data = path.read_bytes()
    headers = Headers(lambda offset, size: data[offset : offset + size])

    def table(section: bytes, dtype: Any) -> Array:
        found = headers.sections.get(section)
        return np.frombuffer(b"" if found is None else data[found["offset"] :][: found["size"]], dtype)

    symbols, names = table(b".symtab", SYMBOL), table(b".strtab", np.uint8).tobytes()

    def name_of(symbol: Any) -> str:
        return names[symbol["name"] :].partition(b"\0")[0].decode()

    functions = symbols[(symbols["info"] & 0xF == FUNCTION) & (symbols["section"] != 0)]
    starts = {(int(each["section"]), int(each["value"]) // INSTRUCTION.itemsize): each for each in functions}
    found = {}
    for (number, first), function in starts.items():
        section = headers.section_names[number]
        code = table(section, INSTRUCTION)[first:][: int(function["size"]) // INSTRUCTION.itemsize]
        named = {
            int(each["at"]) // INSTRUCTION.itemsize - first: symbols[each["symbol"]]
            for each in table(b".rel" + section, RELOCATION)
        }
        calls = {place for place in _named((number, first), code, named) if place in starts}
        called = {at: symbol for at, symbol in named.items() if 0 <= at < len(code) and code[at]["code"] == CALL}
        externs = {at: name_of(symbol) for at, symbol in called.items() if not symbol["section"]}
        found[number, first] = Function(
            name_of(function), section.decode(), code, _frame(code), frozenset(calls), externs
        )
    return found


def _frame(code: Array) -> int:
    """The lowest place below the frame pointer that is read, written or computed."""
    to, of, kind = code["registers"] & 0xF, code["registers"] >> 4, code["code"] & 7
    based = np.isin(kind, LOADS) & (of == FRAME_POINTER) | np.isin(kind, STORES) & (to == FRAME_POINTER)
    places = code["offset"][based].tolist()
    for at in np.flatnonzero((code["code"] == COPY) & (of == FRAME_POINTER)):
        added = (code["code"][at:] == ADD_CONSTANT) & (to[at:] == to[at])
        places.append(int(code["constant"][at:][added][0]))
    return -min(places, default=0)


def _named(start: Place, code: Array, named: dict[int, Any]) -> Iterator[Place]:
    """The places that calls and addresses in the code of a function name, among them those of data."""
    section, first = start
    for at, (operation, registers, _, constant) in enumerate(code.tolist()):
        calls = operation == CALL and registers >> 4 == PSEUDO_CALL
        if calls and at not in named:
            yield section, first + at + 1 + constant
        elif calls or (operation == LOAD_ADDRESS and at in named):
            symbol = named[at]
            # What a section's symbol lacks is in the instruction: to be added to the next one's number, or in bytes.
            within = constant + 1 if calls else constant // INSTRUCTION.itemsize
            place = int(symbol["value"]) // INSTRUCTION.itemsize
            yield int(symbol["section"]), place + within * (symbol["info"] & 0xF == SECTION)
