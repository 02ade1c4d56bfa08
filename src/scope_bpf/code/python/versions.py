"""Where each version of CPython keeps its threads, frames and code: offsets in bytes.

Offsets up to 3.12 were made by a C compiler from each version's headers (Include/, Include/internal/), for 64-bit
machines; they stay the same within a minor version. From 3.13 on, the interpreter contains them: `_Py_DebugOffsets`, at
the start of `_PyRuntime`.
"""

from collections.abc import Mapping

Version = tuple[int, int]
Offsets = Mapping[str, int | str]  # members of struct python_offsets, bpf/include/python_interpreter.bpf.h

EVALUATES = "_PyEval_EvalFrameDefault"  # since 3.6, Python/ceval.c
EVALUATED: tuple[Version, ...] = ((3, 6), (3, 7), (3, 8), (3, 9), (3, 10))  # where each call of Python is a call of it

# PyFrameObject and PyCodeObject, 3.6 and 3.7: enough to know a frame that is evaluated, not to find a thread's frames.
_EVALUATED: Offsets = {"previous": 24, "code": 32, "first_line": 36, "file": 96, "name": 104, "lines": 112}

_OLD: Offsets = {  # PyFrameObject and PyCodeObject, 3.8 to 3.10
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

OFFSETS: Mapping[Version, Offsets] = {
    (3, 6): _EVALUATED,
    (3, 7): _EVALUATED,
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


IN_DEBUG_OFFSETS: Mapping[Version, Mapping[str, int]] = {
    (3, 13): _words(19, 24, _FRAME_313, _CODE_313),
    (3, 14): _words(22, 27, _FRAME_314, _CODE_314),
    (3, 15): _words(22, 30, _FRAME_315, _CODE_315),
}
SINCE_313 = {
    "has_owner": 1,
    "no_owner_from": 3,  # FRAME_OWNED_BY_CSTACK, since 3.14 FRAME_OWNED_BY_INTERPRETER
    "ascii": 40,
    "compact": 56,
    "instruction_is": "PYTHON_POINTER",
}
