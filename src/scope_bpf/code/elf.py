"""Reads an ELF file of a watched process: its functions, imports and code.

Formats: System V ABI, chapters 4 and 5; elf(5).
"""

import os
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader, FileIO
from itertools import islice
from typing import Any

import numpy as np

from scope_bpf.code.content import Content, Source
from scope_bpf.code.effort import Effort
from scope_bpf.code.symbols import MOST_SYMBOLS, Symbols
from scope_bpf.layout.elf_headers import SYMBOL, Headers, table_at

_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_PT_LOAD, _PT_INTERP, _SHT_NOTE, _SHT_NOBITS, _SHF_EXECINSTR = 1, 3, 7, 8, 4
# Limits against damaged files; larger values are ignored
_MOST_SEGMENTS = 64
_MOST_ADDRESS = 1 << 62  # addresses of user space are lower
_MOST_READ = 1 << 27  # bytes of a section that is read at once
_MOST_RELOCATIONS = 1 << 22
_MOST_CODE = 256  # sections with code
_MOST_ALIKE = 64  # sections whose names begin alike
_LONGEST_PATH = 4096
_MOST_NOTES = 4096  # bytes
_PIECE = 1 << 16  # relocations per read
_PT_NOTE, _BUILD_ID = 4, (3, b"GNU\0")  # type NT_GNU_BUILD_ID and owner of the note
X86_64 = 62  # EM_X86_64
_RELATIVE = {X86_64: 8, 183: 1027}  # R_X86_64_RELATIVE, R_AARCH64_RELATIVE
_NOTE = struct.Struct("<III")  # size of owner, size of text, type
_PAGE = os.sysconf("SC_PAGE_SIZE")  # mappings begin at a page, which may be before the segment
_ENDBR64 = b"\xf3\x0f\x1e\xfa"

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Segment:
    """A mapped part of the file: `size` bytes at `offset` in the file are at `address` in memory.

    The part takes `memory` bytes there; bytes after `size` are zeros.
    """

    offset: int
    address: int
    size: int
    memory: int
    executable: bool
    writable: bool


@dataclass(frozen=True)
class Span:
    """Bytes of the file, and the memory address of the first byte."""

    offset: int
    address: int
    size: int


class ElfFile:
    """A 64-bit little-endian ELF file.

    Args:
        file: the file, open for reading or otherwise. The caller closes it, after the last use of this object.

    Attributes:
        machine: the CPU architecture, e_machine.
        segments: the mapped parts.
        size: size of the file in bytes.
        read: reads bytes at an offset, see `Content.read`.
        left_out: what of the file is too large to be read, as text, by section; or takes too long.
        effort: bounds the CPU time that reading the tables takes.

    Raises:
        NotElf: the file is not such a file, or is damaged.
    """

    def __init__(self, file: FileIO | BufferedReader | Source) -> None:
        # The tables refer to the content only, so the file can be closed as soon as nobody uses this object.
        content = Content(file)
        self.size, self.read = content.size, content.read
        self.left_out: dict[str, str] = {}
        self.effort = Effort(self.left_out)
        headers = Headers(self.read)
        self.machine, self._parts, self._sections = headers.machine, headers.parts, headers.sections
        loaded = self._parts[self._parts["type"] == _PT_LOAD]
        ends = loaded["address"].astype(float) + loaded["memory"] + loaded["size"]
        loaded = loaded[ends < _MOST_ADDRESS][:_MOST_SEGMENTS]
        self.segments = tuple(
            Segment(
                offset=int(part["offset"]),
                address=int(part["address"]),
                size=max(0, min(int(part["size"]), self.size - int(part["offset"]))),
                memory=int(part["memory"]),
                executable=bool(part["flags"] & 1),
                writable=bool(part["flags"] & 2),
            )
            for part in loaded
        )

    @cached_property
    def interpreter(self) -> str:
        """Path of the program's loader; empty if it needs none."""
        for part in self._parts[self._parts["type"] == _PT_INTERP]:
            path = self.read(int(part["offset"]), min(int(part["size"]), _LONGEST_PATH))
            return path.rstrip(b"\0").decode(errors="surrogateescape")
        return ""

    @cached_property
    def build_id(self) -> str:
        """The unique id of this build, hexadecimal; empty if the linker wrote none. Format: elf(5), notes."""
        sections = [header for header in self._sections.values() if header["type"] == _SHT_NOTE]
        for part in (*self._parts[self._parts["type"] == _PT_NOTE], *sections):  # debug files may lack the part
            notes, at = self.read(int(part["offset"]), min(int(part["size"]), _MOST_NOTES)), 0
            while at + _NOTE.size <= len(notes):
                owner_size, size, kind = _NOTE.unpack_from(notes, at)
                owner = notes[at + _NOTE.size : at + _NOTE.size + owner_size]
                text = at + _NOTE.size + (owner_size + 3 & ~3)
                if (kind, owner) == _BUILD_ID:
                    return notes[text : text + size].hex()
                at = text + (size + 3 & ~3)
        return ""

    def functions(self, names: Collection[str]) -> dict[str, int]:
        """Offsets in the file by name of functions that the file defines, including local functions."""
        found: dict[str, int] = {}
        for symbols in (self.dynamic_symbols, self.symbols) if names else ():
            if symbols:
                found = symbols.addresses(names) | found
        offsets = {name: self.offset_of(address) for name, address in found.items()}
        return {name: offset for name, offset in offsets.items() if offset is not None}

    def variables(self, names: Collection[str]) -> dict[str, int]:
        """Addresses by name of the symbols of any kind that the file defines."""
        found: dict[str, int] = {}
        for symbols in filter(None, (self.dynamic_symbols, self.symbols)):
            for name in names:
                addresses = symbols.addresses_at(symbols.indices(name))
                defined = addresses[addresses >= 0].tolist()
                if defined:
                    found[name] = defined[0]
        return found

    def functions_containing(self, literal: str) -> set[tuple[str, int]]:
        """Names, with offsets in the file, of the functions whose names contain `literal`, including local functions.

        Several names may have the same offset, and several local functions the same name.
        """
        tables = (self.dynamic_symbols, self.symbols)
        found = [pair for symbols in tables if symbols for pair in symbols.containing(literal)]
        code = self.are_code(np.array([address for _, address in found], np.int64)).tolist()
        offsets = ((name, self.offset_of(at)) for (name, at), is_code in zip(found, code, strict=True) if is_code)
        return {(name, offset) for name, offset in offsets if offset is not None}

    def names_of_function(self, offset: int) -> set[str]:
        """All names of the function that starts at an offset in the file."""
        address = self.address_of(offset)
        tables = (self.dynamic_symbols, self.symbols)
        return {name for table in tables if table and address is not None for name in table.names_at(address)}

    @cached_property
    def dynamic_symbols(self) -> Symbols | None:
        """The dynamic symbol table; None if there is none."""
        return self._table(".dynsym", ".dynstr")

    @cached_property
    def symbols(self) -> Symbols | None:
        """The full symbol table; None if the file was stripped."""
        return self._table(".symtab", ".strtab")

    def _table(self, table: str, names: str) -> Symbols | None:
        symbols, strings = self._content(table), self._content(names)
        if symbols[1] < SYMBOL.itemsize or not strings[1]:
            return None
        if (count := symbols[1] // SYMBOL.itemsize) > MOST_SYMBOLS:
            self.left_out[table] = f"{table}: all but {MOST_SYMBOLS:,} of {count:,} symbols"
        return Symbols(self.read, symbols, strings, self.effort)

    def _content(self, name: str) -> tuple[int, int]:
        """Offset and size of a section's content; size 0 if there is no such section."""
        header = self._sections.get(name.encode(errors="surrogateescape"))
        if header is None or header["type"] == _SHT_NOBITS:
            return 0, 0
        return int(header["offset"]), max(0, min(int(header["size"]), self.size - int(header["offset"])))

    def _read_whole(self, name: str) -> bytes:
        offset, size = self._content(name)
        if size > _MOST_READ:
            self.left_out[name] = f"{name}: {size:,} bytes"
            return b""
        return self.read(offset, size)

    def slots(self, name: str) -> list[int]:
        """Addresses of the slots that the loader fills with the address of the imported function `name`."""
        found: list[int] = []
        indices = self.dynamic_symbols.indices(name) if self.dynamic_symbols else ()
        for relocations in self._relocations() if len(indices) else ():
            symbols = relocations["symbol"].copy()  # a search in a strided array takes ten times as long
            found += relocations["offset"][np.isin(symbols, indices)].tolist()
        return found

    def sections(self, beginning: str) -> Iterator[tuple[int, bytes]]:
        """Address and content of the sections whose names begin with `beginning`; those that are too large have no
        content."""
        for name in self._names(beginning):
            yield self.section(name)

    def spans(self, beginning: str) -> Iterator[tuple[int, int]]:
        """Begin and end in memory of the sections whose names begin with `beginning`."""
        for name in self._names(beginning):
            address = int(self._sections[name.encode(errors="surrogateescape")]["address"])
            yield address, address + self._content(name)[1]

    def _names(self, beginning: str) -> Iterator[str]:
        alike = (name for name in self._sections if name.startswith(beginning.encode()))
        return (name.decode(errors="surrogateescape") for name in islice(alike, _MOST_ALIKE))

    def section(self, name: str) -> tuple[int, bytes]:
        """Address and content of a section; no content if there is no such section, or if it is too large."""
        header = self._sections.get(name.encode(errors="surrogateescape"))
        return (int(header["address"]) if header is not None else 0), self._read_whole(name)

    def shift_of(self, start: int, offset: int) -> int | None:
        """How far the file's addresses were moved in a process; None if no code of the file is mapped so.

        Args:
            start, offset: address of an executable mapping, and its offset in the file.
        """
        for part in self.segments:
            if part.executable and part.offset - _PAGE < offset < part.offset + part.size:
                return start - offset - (part.address - part.offset)
        return None

    def has_section(self, name: str) -> bool:
        """Whether the file has a section with this name."""
        return name.encode() in self._sections

    @cached_property
    def code(self) -> tuple[Span, ...]:
        """The code: all sections with instructions, or all executable segments if there are no sections."""
        spans = tuple(
            Span(offset, address, max(0, min(int(header["size"]), self.size - offset)))
            for header in self._sections.values()
            if header["flags"] & _SHF_EXECINSTR and header["type"] != _SHT_NOBITS
            if self.offset_of(address := int(header["address"])) == (offset := int(header["offset"]))
        )
        if spans:
            return spans[:_MOST_CODE]
        return tuple(Span(part.offset, part.address, part.size) for part in self.segments if part.executable)

    def are_code(self, addresses: Array) -> Array:
        """Which of these addresses are in code."""
        return _are_within(addresses, [(part.address, part.size) for part in self.code])

    def are_data(self, addresses: Array) -> Array:
        """Which of these addresses may be variables."""
        parts = [(part.address, part.memory) for part in self.segments if part.writable]
        return _are_within(addresses, parts)

    def pointers_at(self, slots: Array) -> Array:
        """The addresses in this file that the loader writes to slots; -1 if unknown, or in another file."""
        found = np.full(len(slots), -1)
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        for relocations in self._relocations() if len(slots) else ():
            offsets = relocations["offset"].astype(np.int64)
            first, last = np.searchsorted(ordered, offsets), np.searchsorted(ordered, offsets, "right")
            wanted = np.flatnonzero(last > first)
            pointers = self._pointers(relocations[wanted]) if len(wanted) else wanted
            for index, pointer in zip(wanted.tolist(), pointers.tolist(), strict=True):
                found[order[first[index] : last[index]]] = pointer
        return found

    def _pointers(self, relocations: Array) -> Array:
        named = np.full(len(relocations), -1)
        if self.dynamic_symbols:
            named = self.dynamic_symbols.addresses_at(relocations["symbol"].astype(np.int64))
        return np.where(relocations["type"] == _RELATIVE.get(self.machine), relocations["addend"], named)

    def _relocations(self) -> Iterator[Array]:
        """The relocations that the loader applies, in pieces."""
        for name in (".rela.dyn", ".rela.plt"):
            offset, size = self._content(name)
            count = min(size // _RELOCATION.itemsize, _MOST_RELOCATIONS)
            for begin in self.effort.on(range(0, count, _PIECE)):
                at = offset + begin * _RELOCATION.itemsize
                yield table_at(self.read, at, min(_PIECE, count - begin), _RELOCATION)

    def offset_of(self, address: int) -> int | None:
        """The offset in the file of an address; None if the address is not in the file."""
        for part in self.segments:
            if part.address <= address < part.address + part.size:
                return address - part.address + part.offset
        return None

    def address_of(self, offset: int) -> int | None:
        """The address of an offset in the file; None if the offset is not mapped."""
        for part in self.segments:
            if part.offset <= offset < part.offset + part.size:
                return offset - part.offset + part.address
        return None

    def read_at(self, address: int, size: int) -> bytes:
        """Up to `size` bytes at an address; none if the address is not in the file."""
        offset = self.offset_of(address)
        return b"" if offset is None else self.read(offset, size)

    def forget(self) -> None:
        """Frees the tables; they are read again when needed."""
        for name in ("symbols", "dynamic_symbols"):
            self.__dict__.pop(name, None)

    def text_at(self, address: int, most: int = 4096) -> str | None:
        """The C string at an address; None if it does not end within `most` bytes."""
        offset = self.offset_of(address)
        if offset is None:
            return None
        text, end, _ = self.read(offset, most).partition(b"\0")
        return text.decode(errors="backslashreplace") if end else None

    def cheapest_probe(self, offset: int) -> int:
        """The best offset to probe a function: cheapest, while arguments and return address are still in place.

        x86 kernels emulate `push`, but single-step `endbr64`, which costs ten times as much
        (arch/x86/kernel/uprobes.c). If a function begins with `endbr64; push`, the `push` is probed.
        """
        code = self.read(offset, 6)
        is_push = code[4:5] and (0x50 <= code[4] <= 0x57 or (code[4] == 0x41 and code[5:6] and 0x50 <= code[5] <= 0x57))
        return offset + 4 if self.machine == X86_64 and code.startswith(_ENDBR64) and is_push else offset


def _are_within(addresses: Array, spans: Iterable[tuple[int, int]]) -> Array:
    found = np.zeros(len(addresses), bool)
    for begin, size in spans:
        found |= (addresses >= begin) & (addresses < begin + size)
    return found
