"""Converting structs to numpy dtypes."""

import numpy as np
import pytest

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Array, Btf, Enum, Integer, Member, Struct
from scope_bpf.layout.records import enum_values, record_dtype
from scope_bpf.probes import probe_named

U32, CHAR = Integer("__u32", 4, signed=False), Integer("char", 1, signed=True)
INNER = Struct("inner", 8, (Member("low", 0, U32), Member("kind", 4, Enum("kind", 4, True, ()))))


class _Types(Btf):
    """The types of an object with one struct."""

    def __init__(self, struct: Struct) -> None:
        self._only = struct

    def struct(self, name: str) -> Struct | None:
        """The struct, if it has this name."""
        return self._only if name == self._only.name else None


def test_a_record_lies_in_memory_as_in_c() -> None:
    """Nested members, arrays of structs and padding have the same offsets as in C."""
    members = (Member("name", 0, Array(CHAR, 16)), Member("each", 16, Array(INNER, 3)), Member("last", 44, U32))
    dtype = record_dtype(_Types(Struct("outer", 48, members)), "outer")
    record = np.zeros(1, dtype)
    record["name"], record["last"] = b"a", 7
    record["each"]["low"], record["each"]["kind"] = (1, 2, 3), -1
    words = np.frombuffer(record.tobytes(), "<i4")
    assert words.tolist() == [ord("a"), 0, 0, 0, 1, -1, 2, -1, 3, -1, 0, 7]


def test_what_has_no_place_in_a_record_is_refused() -> None:
    """A pointer is refused, because user space cannot use it; the message names the struct and the member."""
    with pytest.raises(LayoutMismatch, match="struct outer: member 'next'"):
        record_dtype(_Types(Struct("outer", 8, (Member("next", 0, None),))), "outer")


def test_what_an_object_lacks_is_named() -> None:
    """The error for a missing struct or enum has its name."""
    btf = probe_named("syscalls").btf
    with pytest.raises(LayoutMismatch, match="no struct nonsense"):
        record_dtype(btf, "nonsense")
    with pytest.raises(LayoutMismatch, match="no enum nonsense"):
        enum_values(btf, "nonsense")
