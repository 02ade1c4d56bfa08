"""Finds the layout of a CPython's structs, by what its file itself says of them.

A type of CPython lists its members with their offsets (PyMemberDef, Include/structmember.h), for `frame.f_code` and
`code.co_name`. So a file with another layout, such as a debug build, is found out.
"""

import struct
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.usdt import sites
from scope_bpf.probes.python.layouts import EVALUATES, LAYOUTS, PythonLayout

ENTRY = ("python", "function__entry")
_SINCE_3_9, _SINCE_3_11 = "PyFrame_GetCode", "PyFrame_GetLasti"  # functions that are new in these versions
_MEMBERS = 240  # offset of PyTypeObject.tp_members, Include/object.h of 3.6 to 3.8, Include/cpython/object.h of 3.9
_MEMBER = struct.Struct("<QiiQ")  # name, type, padding, offset; flags and doc follow
_MEMBER_BYTES, _MOST_MEMBERS = 40, 24


_known: WeakKeyDictionary[ElfFile, PythonLayout | None] = WeakKeyDictionary()


def layout_of(elf: ElfFile) -> PythonLayout | None:
    """The layout of an interpreter whose calls are those of EVALUATES; None: they are not, or the layout is unknown."""
    if elf not in _known:
        _known[elf] = _found(elf)
    return _known[elf]


def has_entries(elf: ElfFile) -> bool:
    """Whether the file has USDT probes for the calls of Python functions."""
    return any((site.provider, site.name) == ENTRY for site in sites(elf))


def _found(elf: ElfFile) -> PythonLayout | None:
    named = elf.functions([EVALUATES, _SINCE_3_9, _SINCE_3_11])
    if EVALUATES not in named or _SINCE_3_11 in named or has_entries(elf):
        return None
    frame, code = _members(elf, "PyFrame_Type"), _members(elf, "PyCode_Type")
    said = (
        frame.get("f_code"),
        *(code.get(name) for name in ("co_firstlineno", "co_filename", "co_name")),
        _SINCE_3_9 in named,
    )
    fitting = (
        one for one in LAYOUTS if said == (one.frame_code, one.code_line, one.code_file, one.code_function, one.second)
    )
    return next(fitting, None)


def _members(elf: ElfFile, type_: str) -> Mapping[str, int]:
    """Offsets of a type's members by name."""
    table = next((symbols for symbols in (elf.dynamic_symbols, elf.symbols) if symbols), None)
    addresses = table.addresses_at(table.indices(type_)).tolist() if table else []
    at = next((_pointers(elf, [address + _MEMBERS])[0] for address in addresses if address > 0), 0)
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
