"""An interpreter's layout is known only if the interpreter's own file agrees."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.python.interpreter import Interpreter, interpreter_in

# What a file of CPython has of which its build can be known.
FILE = """
struct member { const char *name; int type; int pad; unsigned long offset; long flags; const char *doc; };
struct member of_code[] = {
    {"co_argcount", 1, 0, 16 + HEAD}, {"co_firstlineno", 1, 0, LINE + HEAD}, {"co_filename", 6, 0, FILE_AT + HEAD},
    {NAME, 6, 0, NAME_AT + HEAD}, {LINES, 6, 0, LINES_AT + HEAD}, {0}};
struct member of_frame[] = {{"f_back", 6, 0, 24 + HEAD}, {"f_code", 6, 0, 32 + HEAD}, {0}};
struct type { char head[240 + HEAD]; struct member *members; };
struct type PyCode_Type = {.members = of_code}, PyFrame_Type = {.members = of_frame};
unsigned long _PyRuntime[128] = {RUNTIME};
void _PyEval_EvalFrameDefault(void) {}
"""
OLD: dict[str, Any] = {
    "LINE": "40",
    "FILE_AT": "104",
    "NAME": '"co_name"',
    "NAME_AT": "112",
    "LINES": '"co_lnotab"',
    "LINES_AT": "120",
}
NEW = OLD | {"LINE": "68", "FILE_AT": "112", "NAME": '"co_qualname"', "NAME_AT": "128", "LINES": '"co_linetable"'}
NEW["LINES_AT"] = "136"
COOKIE = "0x7970677562656478"  # xdebugpy
# The words of _Py_DebugOffsets in 3.13: code_object begins with the 35th.
DEBUG_OFFSETS = f"{COOKIE}, 0x30d00f0, FREE, [35] = 112, [37] = 128, [38] = 136, [39] = 68"


def found(tmp_path: Path, text: str = "", *flags: str, head: int = 0, runtime: str = "0", **names: str) -> Interpreter:
    """The interpreter in a file that is made like this."""
    macros = {"HEAD": str(head), "RUNTIME": runtime, **names}
    source, library = tmp_path / "file.c", tmp_path / "libpython.so"
    source.write_text("".join(f"#define {name} {value}\n" for name, value in macros.items()) + FILE + text)
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", *flags, "-o", library, source], check=True)
    with library.open("rb", buffering=0) as file:
        interpreter = interpreter_in(ElfFile(file))
    assert interpreter
    return interpreter


SINCE_3_9 = "void PyCode_NewWithPosOnlyArgs(void) {}\nvoid PyObject_CallNoArgs(void) {}\n"


@pytest.mark.parametrize("flags", [(), ("-s",), ("-O2", "-Wl,-z,pack-relative-relocs")])
def test_a_build_that_agrees(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """However it was linked, the lists of members are found."""
    interpreter = found(tmp_path, SINCE_3_9, *flags, **OLD)
    assert (interpreter.name, interpreter.unknown, interpreter.evaluated) == ("CPython 3.9", "", (3, 9))
    assert (interpreter.offsets["name"], interpreter.offsets["code"]) == (112, 32)


def test_a_build_with_longer_objects(tmp_path: Path) -> None:
    """With Py_TRACE_REFS, every object begins with two more pointers: nothing is read at wrong offsets."""
    interpreter = found(tmp_path, SINCE_3_9, head=16, **OLD)
    assert (interpreter.offsets, interpreter.evaluated) == ({}, None)
    assert interpreter.unknown == "the layout of this build of CPython 3.9"


def test_a_build_that_has_moved_one_member(tmp_path: Path) -> None:
    """It is found out, too."""
    interpreter = found(tmp_path, SINCE_3_9, **OLD | {"LINES_AT": "128"})
    assert interpreter.unknown == "the layout of this build of CPython 3.9"


def test_offsets_that_the_interpreter_tells(tmp_path: Path) -> None:
    """Since 3.13, an interpreter has them in its own data, which its types must agree with."""
    version = "unsigned int Py_Version = 0x030d00f0;"
    interpreter = found(tmp_path, version, runtime=DEBUG_OFFSETS, FREE="0", **NEW)
    assert (interpreter.unknown, interpreter.offsets["first_line"]) == ("", 68)
    longer = found(tmp_path, version, head=16, runtime=DEBUG_OFFSETS, FREE="0", **NEW)
    assert longer.unknown == "the layout of this build of CPython 3.13"
    free = found(tmp_path, version, runtime=DEBUG_OFFSETS, FREE="1", **NEW)
    assert (free.unknown, free.offsets) == ("free-threaded CPython 3.13", {})
    none = found(tmp_path, version, **NEW)
    assert none.unknown == "CPython 3.13 without debug offsets"


def test_versions_that_are_not_known(tmp_path: Path) -> None:
    """They are told by their number, if they have one."""
    newer = found(tmp_path, "unsigned int Py_Version = 0x040200f0;", **NEW)
    assert (newer.name, newer.unknown, newer.offsets) == ("CPython 4.2", "CPython 4.2", {})
    oldest = found(tmp_path, "", **OLD)
    assert (oldest.version, oldest.unknown) == ((3, 7), "the layout of this build of CPython 3.7")
