"""Converts a C struct to columns: the numpy field and the Arrow column of each member.

Columns have the names of the members. Members of structs in the struct become columns too; `pad` is left out.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Array, Enum, Integer, Struct, Type
from scope_bpf.layout.records import dtype_of


class Kind(enum.Enum):
    """How the bytes of a field are read."""

    NUMBER = "number"  # an integer
    NAME = "name"  # char[N], NUL-padded, few distinct values: a dictionary of strings
    TEXT = "text"  # struct scope_text: a string in the tail
    TEXT_LIST = "text_list"  # struct scope_text_list
    PATH = "path"  # struct scope_path
    HISTOGRAM = "histogram"  # struct scope_histogram: counts per power of two
    ENUM = "enum"  # an enum: a dictionary of its enumerators' names
    ADDRESS = "address"  # struct scope_address: a dictionary of addresses as text


@dataclass(frozen=True)
class Field:
    """One column of a stream: the offset of its bytes in the fixed part, and how to read them.

    Attributes:
        names: for an enum, the text of each value.
    """

    name: str
    offset: int
    kind: Kind
    dtype: np.dtype[Any]
    arrow: pa.DataType
    names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """The fixed part of a record: size in bytes, and the fields in order."""

    size: int
    fields: tuple[Field, ...]

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """A structured dtype of the fixed part, padding included."""
        return np.dtype(
            {
                "names": [field.name for field in self.fields],
                "formats": [field.dtype for field in self.fields],
                "offsets": [field.offset for field in self.fields],
                "itemsize": self.size,
            }
        )


_TAIL_KINDS = {
    "scope_text": (Kind.TEXT, pa.string()),
    "scope_text_list": (Kind.TEXT_LIST, pa.list_(pa.string())),
    "scope_path": (Kind.PATH, pa.string()),
}
_SINGLE = (*_TAIL_KINDS, "scope_address", "scope_histogram")  # structs that are one column; of others, each member is
_UNSEEN = (("scope_header", "stream"),)  # selects the layout of a record
_NAMES = pa.dictionary(pa.int32(), pa.string())


def layout_of(*structs: Struct) -> Layout:
    """The layout of one struct, or of several consecutive structs.

    Raises:
        LayoutMismatch: a member's type cannot become a column.
    """
    fields: list[Field] = []
    begin = 0
    for struct in structs:
        fields.extend(_fields(struct, begin))
        begin += struct.size
    return Layout(begin, tuple(fields))


def _fields(struct: Struct, begin: int) -> list[Field]:
    fields: list[Field] = []
    for member in struct.members:
        if member.name == "pad" or (struct.name, member.name) in _UNSEEN:
            continue
        offset = begin + member.offset
        if isinstance(member.type, Struct) and member.type.name not in _SINGLE:
            fields.extend(_fields(member.type, offset))
        else:
            fields.append(_field(struct, member.name, offset, member.type))
    return fields


def enumerators(type_: Enum) -> dict[int, str]:
    """The texts of an enum's values: in lower case, without the prefix that all enumerators share.

    TCP_SYN_SENT becomes `syn_sent` if all enumerators begin with TCP. If two names have the same value, the first is
    used.
    """
    words = [name.lower().split("_") for name, _ in type_.values]
    common = 0
    while words and all(len(each) > common + 1 and each[common] == words[0][common] for each in words):
        common += 1
    named = zip(type_.values, words, strict=True)
    return {value: "_".join(each[common:]) for (_, value), each in reversed(list(named))}


def _field(struct: Struct, name: str, offset: int, type_: Type) -> Field:
    if isinstance(type_, Integer):
        dtype = np.dtype(f"<{'i' if type_.signed else 'u'}{type_.size}")
        return Field(name, offset, Kind.NUMBER, dtype, pa.from_numpy_dtype(dtype))
    if isinstance(type_, Array) and isinstance(type_.element, Integer) and type_.element.name == "char":
        return Field(name, offset, Kind.NAME, np.dtype(f"S{type_.count}"), _NAMES)
    if isinstance(type_, Enum):
        dtype = np.dtype(f"<{'i' if type_.signed else 'u'}{type_.size}")
        return Field(name, offset, Kind.ENUM, dtype, _NAMES, enumerators(type_))
    if isinstance(type_, Struct) and type_.name == "scope_address":
        return Field(name, offset, Kind.ADDRESS, dtype_of(type_), _NAMES)
    if isinstance(type_, Struct) and type_.name in _TAIL_KINDS:
        kind, arrow = _TAIL_KINDS[type_.name]
        return Field(name, offset, kind, dtype_of(type_), arrow)
    if isinstance(type_, Struct) and type_.name == "scope_histogram":
        buckets = type_.size // 8
        return Field(name, offset, Kind.HISTOGRAM, np.dtype(("<u8", buckets)), pa.list_(pa.uint64(), buckets))
    raise LayoutMismatch(f"struct {struct.name}: member '{name}' has a type that cannot become a column")
