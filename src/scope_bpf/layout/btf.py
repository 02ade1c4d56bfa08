"""Reads the layouts of events from a BPF object's BTF, so C is their only definition.

Pure Python, without privileges: the catalogue needs it on hosts that cannot load programs. Format: the kernel's
Documentation/bpf/btf.rst and include/uapi/linux/btf.h.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scope_bpf.host import KERNEL_BTF
from scope_bpf.layout.elf_headers import SYMBOL, Headers

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")

_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD, _TYPEDEF, _VOLATILE, _CONST, _RESTRICT = range(1, 12)
_FUNC, _FUNC_PROTO, _VAR, _DATASEC, _FLOAT, _DECL_TAG, _TYPE_TAG, _ENUM64 = range(12, 20)
_STT_OBJECT = 1  # elf(5): the symbol is a variable
_MODIFIERS = (_TYPEDEF, _VOLATILE, _CONST, _RESTRICT, _TYPE_TAG)


@dataclass(frozen=True)
class Integer:
    """A C integer: size in bytes and signedness. Its name distinguishes `char` from `__u8`."""

    name: str
    size: int
    signed: bool


@dataclass(frozen=True)
class Enum:
    """A C enum: size in bytes, and the enumerators with their values, in order."""

    name: str
    size: int
    signed: bool
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Array:
    """`count` elements of one type."""

    element: "Type"
    count: int


@dataclass(frozen=True)
class Member:
    """A member of a struct; the offset is in bytes from the start of the struct."""

    name: str
    offset: int
    type: "Type"


@dataclass(frozen=True)
class Struct:
    """A C struct: size in bytes, and the members in order."""

    name: str
    size: int
    members: tuple[Member, ...]


Type = Integer | Enum | Array | Struct | None  # None: a pointer, a function, a union, a float, void


@dataclass(frozen=True)
class Variable:
    """A global variable: its section and its offset there, in bytes."""

    section: str
    offset: int
    size: int


class _Object:
    """A compiled object: its sections and its global variables."""

    def __init__(self, elf: bytes) -> None:
        self._elf = elf
        self._headers = Headers(self._read)

    def _read(self, offset: int, size: int) -> bytes:
        return self._elf[offset : offset + size]

    def section(self, name: bytes) -> bytes:
        """The content of a section; empty if there is none with this name."""
        header = self._headers.sections.get(name)
        return b"" if header is None else self._read(int(header["offset"]), int(header["size"]))

    def variables(self) -> dict[str, Variable]:
        """Read from the symbol table, because BTF in an object file has no offsets yet."""
        table, names = self.section(b".symtab"), self.section(b".strtab")
        symbols = np.frombuffer(table, SYMBOL)
        return {
            _text(names, int(symbol["name"])): Variable(
                self._headers.section_names[symbol["section"]].decode(), int(symbol["value"]), int(symbol["size"])
            )
            for symbol in symbols[symbols["info"] & 0xF == _STT_OBJECT]
        }


class Btf:
    """The types and global variables of one BPF object."""

    def __init__(self, elf: bytes) -> None:
        object_ = _Object(elf)
        data = object_.section(b".BTF")
        if not data:
            raise ValueError("the object has no .BTF section")
        self.variables = object_.variables()
        magic, _, _, header, type_offset, type_length, text_offset, text_length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("the object's .BTF section does not begin with BTF's magic number")
        self._text = data[header + text_offset : header + text_offset + text_length]
        self._types = data[header + type_offset : header + type_offset + type_length]
        self._at = [0, *self._walk()]  # type id -> offset in _types; id 0 is void
        named = [(self._kind(at), self._name(at), at) for at in self._at[1:]]
        self._read: dict[int, Struct] = {}
        self._structs = {name: at for kind, name, at in named if kind == _STRUCT and name}
        self._enums = {name: at for kind, name, at in named if kind in (_ENUM, _ENUM64) and name}

    @classmethod
    def from_file(cls, path: Path) -> "Btf":
        """Reads the object at `path`."""
        return cls(path.read_bytes())

    def struct(self, name: str) -> Struct | None:
        """The struct with this name, or None."""
        at = self._structs.get(name)
        return None if at is None else self._struct(at)

    def enum(self, name: str) -> dict[str, int] | None:
        """The values of the enum with this name by enumerator, in order, or None."""
        at = self._enums.get(name)
        return None if at is None else dict(self._enum(at).values)

    def _struct(self, at: int) -> Struct:
        if at not in self._read:
            self._read[at] = Struct(self._name(at), self._size(at), tuple(self._members(at)))
        return self._read[at]

    def _enum(self, at: int) -> Enum:
        """Values of four bytes are read as signed: compilers before LLVM 15 do not store the signedness."""
        value = struct.Struct("<Ii" if self._kind(at) == _ENUM else "<Iq" if self._flag(at) else "<IQ")
        begin = at + _TYPE.size
        pairs = value.iter_unpack(self._types[begin : begin + value.size * self._vlen(at)])
        values = tuple((self._text_at(name), number) for name, number in pairs)
        return Enum(self._name(at), self._size(at), any(number < 0 for _, number in values), values)

    def _kind(self, at: int) -> int:
        return int(_TYPE.unpack_from(self._types, at)[1]) >> 24 & 0x1F

    def _vlen(self, at: int) -> int:
        return int(_TYPE.unpack_from(self._types, at)[1]) & 0xFFFF

    def _flag(self, at: int) -> bool:
        return bool(_TYPE.unpack_from(self._types, at)[1] >> 31)

    def _size(self, at: int) -> int:
        """The size field; for a modifier, the id of the modified type."""
        return int(_TYPE.unpack_from(self._types, at)[2])

    def _name(self, at: int) -> str:
        return self._text_at(_TYPE.unpack_from(self._types, at)[0])

    def _text_at(self, begin: int) -> str:
        return _text(self._text, begin)

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
        bitfields = self._flag(at)
        for index in range(self._vlen(at)):
            name, type_id, bits = _TYPE.unpack_from(self._types, at + 12 + 12 * index)
            offset = bits & 0xFFFFFF if bitfields else bits
            yield Member(self._text_at(name), offset // 8, self._type(type_id))

    def _type(self, type_id: int) -> Type:
        at = self._at[type_id]
        kind = self._kind(at) if type_id else 0
        if kind in _MODIFIERS:
            return self._renamed(at)
        if kind == _INT:
            encoding = struct.unpack_from("<I", self._types, at + 12)[0]
            return Integer(self._name(at), self._size(at), bool(encoding >> 24 & 1))
        if kind == _ARRAY:
            element, _, count = _TYPE.unpack_from(self._types, at + 12)
            return Array(self._type(element), count)
        if kind in (_ENUM, _ENUM64):
            return self._enum(at)
        return self._struct(at) if kind == _STRUCT else None

    def _renamed(self, at: int) -> Type:
        """The modified type; an integer gets the name of its outermost typedef, except `char`."""
        name, resolved = self._name(at), self._type(self._size(at))
        if self._kind(at) == _TYPEDEF and isinstance(resolved, Integer) and resolved.name != "char":
            return Integer(name, resolved.size, resolved.signed)
        return resolved


def enum_of_kernel(name: str, path: Path = KERNEL_BTF) -> dict[str, int]:
    """The values of an enum of the running kernel by enumerator, in order; empty: the kernel has no such enum.

    Only this enum is read: the kernel has more than 100,000 types.
    """
    data = path.read_bytes()
    _, _, _, header, type_offset, type_length, text_offset, text_length = _HEADER.unpack_from(data)
    types = data[header + type_offset : header + type_offset + type_length]
    texts = data[header + text_offset : header + text_offset + text_length]
    named = texts.find(b"\0" + name.encode() + b"\0") + 1  # BTF has each text once
    at = types.find(struct.pack("<I", named)) if named else -1
    while at >= 0:
        kind, count = (0, 0) if at % 4 else (types[at + 7] & 0x1F, types[at + 4] | types[at + 5] << 8)
        if kind == _ENUM:
            pairs = struct.iter_unpack("<II", types[at + _TYPE.size : at + _TYPE.size + 8 * count])
            return {_text(texts, text): number for text, number in pairs}
        at = types.find(struct.pack("<I", named), at + 1)
    return {}


def _text(texts: bytes, begin: int) -> str:
    return texts[begin : texts.index(b"\0", begin)].decode()
