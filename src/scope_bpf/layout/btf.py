"""Reads the layouts of events from a BPF object's own BTF, so that C is their one definition.

Pure Python and without privileges: the catalogue needs it where nothing can be loaded. Format: the kernel's
Documentation/bpf/btf.rst and include/uapi/linux/btf.h.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")

_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD, _TYPEDEF, _VOLATILE, _CONST, _RESTRICT = range(1, 12)
_FUNC, _FUNC_PROTO, _VAR, _DATASEC, _FLOAT, _DECL_TAG, _TYPE_TAG, _ENUM64 = range(12, 20)
_MODIFIERS = (_TYPEDEF, _VOLATILE, _CONST, _RESTRICT, _TYPE_TAG)


@dataclass(frozen=True)
class Integer:
    """A C integer: bytes and signedness. `char` is told from `__u8` by its name."""

    name: str
    size: int
    signed: bool


@dataclass(frozen=True)
class Array:
    """`count` elements of one type."""

    element: "Type"
    count: int


@dataclass(frozen=True)
class Member:
    """A member of a struct; the offset is in bytes from its begin."""

    name: str
    offset: int
    type: "Type"


@dataclass(frozen=True)
class Struct:
    """A C struct: its size in bytes and its members in order."""

    name: str
    size: int
    members: tuple[Member, ...]


Type = Integer | Array | Struct | None  # None: a pointer, a function, void


@dataclass(frozen=True)
class Variable:
    """A global variable: its section and where it lies there, in bytes."""

    section: str
    offset: int
    size: int


def _variables(file: ELFFile) -> dict[str, Variable]:
    """From the symbol table: in an object file, BTF does not have the offsets yet."""
    symbols: Any = file.get_section_by_name(".symtab")
    return {
        symbol.name: Variable(file.get_section(symbol["st_shndx"]).name, symbol["st_value"], symbol["st_size"])
        for symbol in symbols.iter_symbols()
        if symbol["st_info"]["type"] == "STT_OBJECT"
    }


class Btf:
    """The types and global variables of one BPF object."""

    def __init__(self, elf: bytes) -> None:
        file = ELFFile(io.BytesIO(elf))
        section = file.get_section_by_name(".BTF")
        if section is None:
            raise ValueError("the object has no .BTF section")
        self.variables = _variables(file)
        data = section.data()
        magic, _, _, header, type_offset, type_length, text_offset, text_length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("the object's .BTF section does not begin with BTF's magic number")
        self._text = data[header + text_offset : header + text_offset + text_length]
        self._types = data[header + type_offset : header + type_offset + type_length]
        self._at = [0, *self._walk()]  # type id -> offset in _types; id 0 is void
        self._structs = {self._name(at): at for at in self._at[1:] if self._kind(at) == _STRUCT and self._name(at)}

    @classmethod
    def from_file(cls, path: Path) -> "Btf":
        """Reads the object at `path`."""
        return cls(path.read_bytes())

    def struct(self, name: str) -> Struct | None:
        """The struct of this name, or None."""
        at = self._structs.get(name)
        if at is None:
            return None
        size = _TYPE.unpack_from(self._types, at)[2]
        return Struct(name, size, tuple(self._members(at)))

    def _kind(self, at: int) -> int:
        return int(_TYPE.unpack_from(self._types, at)[1]) >> 24 & 0x1F

    def _vlen(self, at: int) -> int:
        return int(_TYPE.unpack_from(self._types, at)[1]) & 0xFFFF

    def _name(self, at: int) -> str:
        begin = _TYPE.unpack_from(self._types, at)[0]
        return self._text[begin : self._text.index(b"\0", begin)].decode()

    def _walk(self) -> Iterator[int]:
        at = 0
        while at < len(self._types):
            yield at
            kind, count = self._kind(at), self._vlen(at)
            extra = {
                _INT: 4,
                _ARRAY: 12,
                _STRUCT: 12 * count,
                _UNION: 12 * count,
                _ENUM: 8 * count,
                _FUNC_PROTO: 8 * count,
                _VAR: 4,
                _DATASEC: 12 * count,
                _DECL_TAG: 4,
                _ENUM64: 12 * count,
            }
            at += 12 + extra.get(kind, 0)

    def _members(self, at: int) -> Iterator[Member]:
        bitfields = _TYPE.unpack_from(self._types, at)[1] >> 31
        for index in range(self._vlen(at)):
            name, type_id, bits = _TYPE.unpack_from(self._types, at + 12 + 12 * index)
            offset = bits & 0xFFFFFF if bitfields else bits
            text = self._text[name : self._text.index(b"\0", name)].decode()
            yield Member(text, offset // 8, self._type(type_id))

    def _type(self, type_id: int) -> Type:
        at = self._at[type_id]
        kind = self._kind(at) if type_id else 0
        if kind in _MODIFIERS:
            name = self._name(at)
            resolved = self._type(_TYPE.unpack_from(self._types, at)[2])
            if kind == _TYPEDEF and isinstance(resolved, Integer) and resolved.name not in ("char",):
                return Integer(name, resolved.size, resolved.signed)
            return resolved
        if kind == _INT:
            encoding = struct.unpack_from("<I", self._types, at + 12)[0]
            return Integer(self._name(at), _TYPE.unpack_from(self._types, at)[2], bool(encoding >> 24 & 1))
        if kind == _ARRAY:
            element, _, count = _TYPE.unpack_from(self._types, at + 12)
            return Array(self._type(element), count)
        if kind == _STRUCT:
            return self.struct(self._name(at))
        return None
