"""Where each version of CPython keeps its threads, frames and code: offsets in bytes.

Offsets up to 3.12 were made by a C compiler from each version's headers (Include/, Include/internal/), for 64-bit
machines; they stay the same within a minor version. From 3.13 on, the interpreter contains them: `_Py_DebugOffsets`, at
the start of `_PyRuntime`.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from scope_bpf.code.elf import ElfFile

Version = tuple[int, int]

_COOKIE = b"xdebugpy"  # Include/internal/pycore_runtime.h, 3.13
_DEBUG_WORDS = 80  # of eight bytes; more than any version has before the last one used here
_SYMBOLS = ("_PyRuntime", "PyCode_Type", "Py_Version")

# Functions of the stable ABI that a version added, which tell versions before 3.11 apart (Misc/stable_abi.toml).
_ADDED = {(3, 10): "PyIter_Send", (3, 9): "PyObject_CallNoArgs", (3, 8): "PyCode_NewWithPosOnlyArgs"}

_Offsets = Mapping[str, int | str]

_OLD: _Offsets = {  # PyFrameObject and PyCodeObject, 3.8 to 3.10
    "interpreters": 32,
    "next_interpreter": 0,
    "threads": 8,
    "next_thread": 8,
    "thread_id": 176,
    "frame": 24,
    "previous": 24,
    "code": 32,
    "instruction": 104,
    "file": 104,
    "name": 112,
    "first_line": 40,
    "lines": 120,
    "ascii": 48,
    "compact": 72,
    "instruction_is": "PYTHON_BYTES",
}

_KNOWN: Mapping[Version, _Offsets] = {
    (3, 8): _OLD,
    (3, 9): _OLD,
    (3, 10): {
        **_OLD,
        "instruction": 96,
        "instruction_is": "PYTHON_UNITS",
        "cframe": 48,
        "cframe_previous": 8,
        "has_cframe": 1,
    },
    (3, 11): {
        "interpreters": 40,
        "next_interpreter": 0,
        "threads": 16,
        "next_thread": 8,
        "thread_id": 152,
        "frame": 56,  # cframe
        "frame_is_behind": 1,
        "frame_in_it": 8,
        "cframe": 56,
        "cframe_previous": 16,
        "has_cframe": 1,
        "previous": 48,
        "code": 32,
        "instruction": 56,
        "is_entry": 68,
        "has_is_entry": 1,
        "file": 112,
        "name": 128,  # co_qualname
        "first_line": 72,
        "lines": 136,
        "bytecode": 184,
        "ascii": 48,
        "compact": 72,
        "instruction_is": "PYTHON_POINTER",
    },
    (3, 12): {
        "interpreters": 40,
        "next_interpreter": 0,
        "threads": 72,
        "next_thread": 8,
        "thread_id": 136,
        "frame": 56,
        "frame_is_behind": 1,
        "frame_in_it": 0,
        "previous": 8,
        "code": 0,
        "instruction": 56,
        "owner": 70,
        "has_owner": 1,
        "no_owner_from": 3,  # FRAME_OWNED_BY_CSTACK
        "file": 112,
        "name": 128,
        "first_line": 68,
        "lines": 136,
        "bytecode": 192,
        "ascii": 40,
        "compact": 56,
        "instruction_is": "PYTHON_POINTER",
    },
}

# For each version with _Py_DebugOffsets, the numbers of the words that have the offsets; version and free_threaded are
# the words 1 and 2. Include/internal/pycore_runtime.h of 3.13, pycore_debug_offsets.h since 3.14.
_FREE_THREADED = 2
_FRAME_313, _CODE_313, _FRAME_314, _CODE_314, _FRAME_315, _CODE_315 = 28, 34, 31, 39, 39, 47


def _words(thread: int, thread_id: int, frame: int, code: int) -> Mapping[str, int]:
    """The words, from where the groups PyThreadState, its thread_id, the frame and the code begin."""
    return {
        "interpreters": 5,
        "next_interpreter": 8,
        "threads": 9,
        "next_thread": thread + 2,
        "frame": thread + 4,
        "thread_id": thread_id,
        "previous": frame + 1,
        "code": frame + 2,
        "instruction": frame + 3,
        "owner": frame + 5,
        "file": code + 1,
        "name": code + 3,
        "lines": code + 4,
        "first_line": code + 5,
        "bytecode": code + 9,
    }


_IN_DEBUG_OFFSETS: Mapping[Version, Mapping[str, int]] = {
    (3, 13): _words(19, 24, _FRAME_313, _CODE_313),
    (3, 14): _words(22, 27, _FRAME_314, _CODE_314),
    (3, 15): _words(22, 30, _FRAME_315, _CODE_315),
}
_SINCE_313 = {
    "has_owner": 1,
    "no_owner_from": 3,  # FRAME_OWNED_BY_CSTACK, since 3.14 FRAME_OWNED_BY_INTERPRETER
    "ascii": 40,
    "compact": 56,
    "instruction_is": "PYTHON_POINTER",
}


@dataclass(frozen=True)
class Interpreter:
    """An interpreter in a file.

    Attributes:
        version: such as (3, 11); None: unknown.
        runtime: address of `_PyRuntime` in the file.
        code_type: address of `PyCode_Type`.
        offsets: members of struct python_offsets; empty: frames of this interpreter cannot be walked.
        unknown: why not.
    """

    version: Version | None
    runtime: int
    code_type: int
    offsets: _Offsets
    unknown: str = ""


def interpreter_in(elf: ElfFile) -> Interpreter | None:
    """The interpreter that a file contains; None if it contains none."""
    found = elf.variables(_SYMBOLS)
    if "_PyRuntime" not in found or "PyCode_Type" not in found:
        return None
    runtime, code_type = found["_PyRuntime"], found["PyCode_Type"]
    version = _version_of(elf, found.get("Py_Version"))
    if version and version in _KNOWN:
        return Interpreter(version, runtime, code_type, _KNOWN[version])
    text = f"CPython {version[0]}.{version[1]}" if version else "CPython of an unknown version"
    if not version or version not in _IN_DEBUG_OFFSETS:
        return Interpreter(version, runtime, code_type, {}, text)
    words = elf.read_at(runtime, 8 * _DEBUG_WORDS)
    if len(words) < 8 * _DEBUG_WORDS or not words.startswith(_COOKIE):
        return Interpreter(version, runtime, code_type, {}, f"{text} without debug offsets")
    values = struct.unpack(f"<{_DEBUG_WORDS}Q", words)
    if values[_FREE_THREADED]:
        return Interpreter(version, runtime, code_type, {}, f"free-threaded {text}")
    return Interpreter(
        version,
        runtime,
        code_type,
        {name: values[word] for name, word in _IN_DEBUG_OFFSETS[version].items()} | _SINCE_313,
    )


def _version_of(elf: ElfFile, version: int | None) -> Version | None:
    if version is not None:  # the value of PY_VERSION_HEX: Include/patchlevel.h
        value = int.from_bytes(elf.read_at(version, 4), "little")
        return value >> 24, value >> 16 & 0xFF
    there = elf.functions(_ADDED.values())
    return next((version for version, name in _ADDED.items() if name in there), None)
