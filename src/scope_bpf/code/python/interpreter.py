"""Which CPython a file contains, and where this build of it keeps its threads, frames and code.

The offsets of a version are believed only if the file itself says the same: its types list members with their offsets.
So builds whose objects have longer heads, such as those with Py_TRACE_REFS, are found out.
"""

import struct
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.python.members import members
from scope_bpf.code.python.versions import (
    EVALUATED,
    EVALUATES,
    IN_DEBUG_OFFSETS,
    OFFSETS,
    SINCE_313,
    Offsets,
    Version,
)

_RUNTIME, _CODE, _FRAME, _VERSION = "_PyRuntime", "PyCode_Type", "PyFrame_Type", "Py_Version"
_COOKIE = b"xdebugpy"  # of _Py_DebugOffsets: Include/internal/pycore_runtime.h, 3.13
_DEBUG_WORDS = 80  # of eight bytes; more than any version has before the last one used here
_FREE_THREADED = 2  # number of this word
_MOST_OFFSET = 0xFFFF  # in struct python_offsets

# Functions of the stable ABI that a version added, which tell versions before 3.11 apart (Misc/stable_abi.toml).
_ADDED = {(3, 10): "PyIter_Send", (3, 9): "PyObject_CallNoArgs", (3, 8): "PyCode_NewWithPosOnlyArgs"}


@dataclass(frozen=True)
class Interpreter:
    """An interpreter in a file.

    Attributes:
        name: such as CPython 3.11.
        version: such as (3, 11); None: unknown.
        runtime: address of `_PyRuntime` in the file; 0: it has none.
        code_type: address of `PyCode_Type`.
        offsets: members of struct python_offsets; empty: unknown.
        unknown: what is not known, so that Python frames of stacks cannot be walked; empty: they can.
        evaluated: the version, if each call of a Python function is a call of the C function EVALUATES.
    """

    name: str
    version: Version | None
    runtime: int
    code_type: int
    offsets: Offsets
    unknown: str
    evaluated: Version | None


_known: WeakKeyDictionary[ElfFile, Interpreter | None] = WeakKeyDictionary()


def interpreter_in(elf: ElfFile) -> Interpreter | None:
    """The interpreter that a file contains; None if it contains none."""
    if elf not in _known:
        _known[elf] = _found(elf)
    return _known[elf]


def _found(elf: ElfFile) -> Interpreter | None:
    variables = elf.variables((_RUNTIME, _CODE, _FRAME, _VERSION))
    if _CODE not in variables or _FRAME not in variables:
        return None
    functions = elf.functions((EVALUATES, *_ADDED.values()))
    version, runtime = _version_of(elf, variables, functions), variables.get(_RUNTIME, 0)
    name = f"CPython {version[0]}.{version[1]}" if version else "CPython of an unknown version"
    offsets, unknown = _offsets_of(elf, version, runtime, name)
    if offsets and not _are_told(elf, offsets, variables[_CODE], variables[_FRAME], version):
        offsets, unknown = {}, f"the layout of this build of {name}"
    elif offsets and "interpreters" not in offsets:
        unknown = f"the layout of {name}"
    evaluated = version if offsets and version in EVALUATED and EVALUATES in functions else None
    return Interpreter(name, version, runtime, variables[_CODE], offsets, unknown, evaluated)


def _version_of(elf: ElfFile, variables: dict[str, int], functions: dict[str, int]) -> Version | None:
    if _VERSION in variables:  # since 3.11, the value of PY_VERSION_HEX: Include/patchlevel.h
        value = int.from_bytes(elf.read_at(variables[_VERSION], 4), "little")
        return value >> 24, value >> 16 & 0xFF
    if EVALUATES not in functions:
        return None
    added = next((version for version, name in _ADDED.items() if name in functions), None)
    return added or ((3, 7) if _RUNTIME in variables else (3, 6))


def _offsets_of(elf: ElfFile, version: Version | None, runtime: int, name: str) -> tuple[Offsets, str]:
    """The offsets, or what is unknown instead."""
    if version and version in OFFSETS:
        return OFFSETS[version], ""
    if not version or version not in IN_DEBUG_OFFSETS:
        return {}, name
    data = elf.read_at(runtime, 8 * _DEBUG_WORDS)
    if len(data) < 8 * _DEBUG_WORDS or not data.startswith(_COOKIE):
        return {}, f"{name} without debug offsets"
    words = struct.unpack(f"<{_DEBUG_WORDS}Q", data)
    if words[_FREE_THREADED]:
        return {}, f"free-threaded {name}"
    offsets = {member: words[word] for member, word in IN_DEBUG_OFFSETS[version].items()}
    if max(offsets.values()) > _MOST_OFFSET:
        return {}, f"{name} with impossible debug offsets"
    return offsets | SINCE_313, ""


def _are_told(elf: ElfFile, offsets: Offsets, code: int, frame: int, version: Version | None) -> bool:
    """Whether the file's own lists of members have these offsets."""
    assert version
    told = members(elf, code)
    wanted = {
        "co_filename": "file",
        "co_firstlineno": "first_line",
        "co_name" if version < (3, 11) else "co_qualname": "name",
        "co_lnotab" if version < (3, 10) else "co_linetable": "lines",
    }
    if version < (3, 11):
        told = {**told, **members(elf, frame)}
        wanted |= {"f_back": "previous", "f_code": "code"}
    return all(told.get(name) == offsets[member] for name, member in wanted.items())
