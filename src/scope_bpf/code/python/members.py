"""What an interpreter's file itself says of its structs: the members that its types list, with their offsets.

PyTypeObject (Include/object.h of 3.6 to 3.8, Include/cpython/object.h since) and PyMemberDef (Include/structmember.h,
Include/descrobject.h since 3.12).
"""

import struct
from collections.abc import Mapping

import numpy as np

from scope_bpf.code.elf import ElfFile

_MEMBERS = 240  # offset of PyTypeObject.tp_members; longer objects begin with more, and have none here
_MEMBER = struct.Struct("<QiiQ")  # name, type, padding, offset; flags and doc follow
_MEMBER_BYTES, _MOST_MEMBERS = 40, 32


def members(elf: ElfFile, type_: int) -> Mapping[str, int]:
    """Offsets by name of the members that a type lists; none if it has no such list where most builds have it.

    Args:
        type_: address of the PyTypeObject.
    """
    (at,) = _pointers(elf, [type_ + _MEMBERS])
    slots = [at + number * _MEMBER_BYTES for number in range(_MOST_MEMBERS)] if at > 0 else []
    found: dict[str, int] = {}
    for slot, pointer in zip(slots, _pointers(elf, slots), strict=True):
        data = elf.read_at(slot, _MEMBER.size)
        name = elf.text_at(pointer, 64) if pointer > 0 else None
        if not name or len(data) < _MEMBER.size:
            break
        found[name] = _MEMBER.unpack(data)[3]
    return found


def _pointers(elf: ElfFile, slots: list[int]) -> list[int]:
    """The addresses in slots: those that the loader writes there, or those in the file if it is loaded as it is."""
    relocated = elf.pointers_at(np.array(slots, np.int64)).tolist()
    kept = [int.from_bytes(elf.read_at(slot, 8), "little") for slot in slots]
    return [there if there > 0 else own for there, own in zip(relocated, kept, strict=True)]
