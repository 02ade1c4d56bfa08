"""Converts a C struct to a numpy dtype, member by member: for shared data other than events."""

from typing import Any

import numpy as np

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Array, Btf, Enum, Integer, Struct, Type


def record_dtype(btf: Btf, name: str) -> np.dtype[Any]:
    """The dtype of `struct NAME`, with padding. Members may be structs and arrays; `char[N]` becomes bytes.

    Raises:
        LayoutMismatch: the struct does not exist, or a member (a pointer, a union) has no dtype.
    """
    struct = btf.struct(name)
    if struct is None:
        raise LayoutMismatch(f"the object has no struct {name}")
    return dtype_of(struct)


def enum_values(btf: Btf, name: str) -> dict[str, int]:
    """The values of `enum NAME` by enumerator, in order.

    Raises:
        LayoutMismatch: the enum does not exist.
    """
    values = btf.enum(name)
    if values is None:
        raise LayoutMismatch(f"the object has no enum {name}")
    return values


def dtype_of(struct: Struct) -> np.dtype[Any]:
    """The dtype of a struct.

    Raises:
        LayoutMismatch: a member has no dtype.
    """
    return np.dtype(
        {
            "names": [member.name for member in struct.members],
            "formats": [_dtype(struct, member.name, member.type) for member in struct.members],
            "offsets": [member.offset for member in struct.members],
            "itemsize": struct.size,
        }
    )


def _dtype(struct: Struct, name: str, type_: Type) -> np.dtype[Any]:
    if isinstance(type_, Integer | Enum):
        return np.dtype(f"<{'i' if type_.signed else 'u'}{type_.size}")
    if isinstance(type_, Array):
        if isinstance(type_.element, Integer) and type_.element.name == "char":
            return np.dtype(f"S{type_.count}")
        return np.dtype((_dtype(struct, name, type_.element), type_.count))
    if isinstance(type_, Struct):
        return dtype_of(type_)
    raise LayoutMismatch(f"struct {struct.name}: member '{name}' has a type without a dtype")
