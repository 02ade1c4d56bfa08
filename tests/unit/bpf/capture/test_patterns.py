"""Patterns of functions: in which files they stand for what, and what is said where they stand for nothing."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scope_bpf.capture.patterns import Match, Patterns
from scope_bpf.catalogue.place import Pattern, Place, Symbol


def patterns(*places: str) -> Patterns:
    made = [Place(Pattern(*place.split(":", 1)), "enter", "leave", begins_only="call") for place in places]
    return Patterns([Place(Symbol(("other",)), "enter"), *made])


def elf(*names: str, stripped: bool = False, go: bool = False, same: str = "") -> Any:
    """A file with these functions, at 0x10, 0x20 and so on; the first is named `same`, too."""
    functions = {(name, 0x10 * (number + 1)) for number, name in enumerate(names)} | ({(same, 0x10)} if same else set())
    table = SimpleNamespace(is_indirect=lambda name: name == "chosen")
    found = SimpleNamespace(symbols=None if stripped else table, dynamic_symbols=table if names else None)
    found.functions_containing = lambda literal: {pair for pair in functions if literal in pair[0]}
    found.names_of_function = lambda offset: {name for name, at in functions if at == offset}
    found.has_section = lambda name: go and name == ".gopclntab"
    return found


@pytest.mark.parametrize(
    ("file", "path", "is_it"),
    [
        ("libc.so.6", "/usr/lib/libc.so.6", True),
        ("libc", "/usr/lib/libc.so.6", True),
        ("libc", "/usr/lib/libcrypt.so.1", False),
        ("libc*", "/usr/lib/libcrypt.so.1", True),
        ("/usr/lib/libc.so.6", "/usr/lib/libc.so.6", True),
        ("/usr/lib/libc.so.6", "/opt/libc.so.6", False),
        ("/opt/*/libc.so.6", "/opt/x/libc.so.6", True),
        ("python3.11", "/usr/bin/python3.11", True),
        ("libz.so.1", "/usr/lib/libz.so.1.2.13", True),
        ("libz.so.1", "/usr/lib/libz.so.12", False),
        ("libc", "/usr/lib/libc-2.31.so", True),
        ("my", "/opt/my.solver", False),
    ],
)
def test_files(file: str, path: str, is_it: bool) -> None:
    """A file is named by its last part, with or without what follows `.so`, or by its path."""
    assert bool(patterns(f"{file}:f").functions(path, elf("f"))) == is_it


def test_a_link_stands_for_its_file(tmp_path: Path) -> None:
    """Mappings have the path of the file itself."""
    shutil.copy(sys.executable, tmp_path / "program-1.2")
    (tmp_path / "program").symlink_to(tmp_path / "program-1.2")
    found = patterns(f"{tmp_path}/program:f")
    assert found.named_files() == [f"{tmp_path}/program"]
    assert found.functions(f"{tmp_path}/program-1.2", elf("f"))
    assert patterns(f"/{'a' * 300}:f").named_files() == [], "too long for a file"
    assert patterns(f"{tmp_path}/nothing:f", f"{tmp_path}:f", f"{tmp_path}/*:f", "program:f").named_files() == []


@pytest.mark.parametrize(
    ("at", "byte", "said"),
    [
        (18, 22, "it is for s390x, and this machine is "),  # e_machine
        (4, 1, "no ELF file of 64 bits, little-endian"),  # EI_CLASS
        (0, 0, "no ELF file of 64 bits, little-endian"),
    ],
)
def test_a_file_that_this_machine_cannot_run(tmp_path: Path, at: int, byte: int, said: str) -> None:
    """It is missing at the start, with the reason; nobody waits for it to be run."""
    program = bytearray(Path(sys.executable).read_bytes())
    program[at] = byte
    (tmp_path / "program").write_bytes(program)
    found = patterns(f"{tmp_path}/program:main")
    assert found.named_files() == []
    (missing,) = found.missing()
    assert missing.startswith(f"{tmp_path}/program: {said}")


def test_functions_have_the_number_of_their_place() -> None:
    """A function of two patterns belongs to the full name, else to the first. Some returns are left alone."""
    found = patterns("l:f*", "l:*", "l:f2").functions("/l", elf("f", "f2", "g", "_ZN1a1bEv", "f.cold", "setjmp"))
    assert found == {
        0x10: Match(1, False),
        0x20: Match(3, False),
        0x30: Match(2, False),
        0x40: Match(2, True),
        0x60: Match(2, True),
    }


def test_returns_of_functions_that_throw() -> None:
    """They are recorded if the place says so; those of functions that use their return address never are."""
    place = Place(Pattern("l", "*"), "enter", "leave", begins_only="call", throwing_too=True)
    found = Patterns([place]).functions("/l", elf("_ZN1a1bEv", "dlopen"))
    assert found == {0x10: Match(0, False), 0x20: Match(0, True)}


def test_names_of_the_same_function() -> None:
    """A function with several names is found by each of them, and may throw if one of them says so."""
    assert patterns("l:malloc").functions("/l", elf("malloc", same="__libc_malloc")) == {0x10: Match(1, False)}
    assert patterns("l:tc_new").functions("/l", elf("tc_new", same="_Znwm")) == {0x10: Match(1, True)}


def test_dots_mean_go_only_in_go() -> None:
    """`graph._omp_fn.0` is a part of a C program; `main.run` is Go's only where there is Go code."""
    assert patterns("l:*").functions("/l", elf("graph._omp_fn.0")) == {0x10: Match(1, False)}
    assert patterns("l:*").functions("/l", elf("main.run", "in_c", go=True)) == {0x20: Match(1, False)}


def test_what_is_missing_for_certain() -> None:
    """A full name that no file of this name has; not a pattern, and not if one of the files has it."""
    made = patterns("l:serve", "l:serve*", "k:f", "m:f", "go:main.run", "c:chosen")
    made.functions("/1/l", elf("server", "swerve"))
    made.functions("/1/k", elf("g"))
    made.functions("/2/k", elf("f"))
    made.functions("/go", elf("main.run", go=True))
    made.functions("/c", elf("f"))
    assert made.missing() == [
        "/1/l: there is no function 'serve' (did you mean 'swerve' or 'server'?)",
        "go:main.run: 1 functions of Go are left out: their stacks move, and recording them could end the program",
        "c:chosen: 1 functions are left out that the loader chooses among several; declare these by their own names",
    ]
    made.functions("/3/l", elf("serves"))
    said = [note for note in made.notes() if note.startswith("l:serve: /3")]
    assert said == ["l:serve: /3/l: there is no function 'serve'"]  # no search while the program runs


def test_notes() -> None:
    """For each pattern: that no file was run, why there is no function, and of which functions not all is recorded."""
    made = patterns("nowhere:f", "l:x*", "s:f*", "e:f*", "cpp:*", "cpp:f", "many:*")
    made.functions("/l", elf("f"))
    made.functions("/s", elf("g", stripped=True))
    made.functions("/e", elf(stripped=True))
    made.functions("/cpp", elf("_ZN1a1bEv", "_ZN1a1cEv", "f"))
    made.functions("/many", elf(*(f"f{number}" for number in range(4097))))
    assert sorted(made.notes()) == [
        "cpp:*: 1 functions belong to another declaration, too, which has their calls",
        "cpp:*: 2 functions have neither duration nor result, because recording their return would harm the program: "
        "it ends if an exception passes a recorded return, or they use their return address",
        "e:f*: /e: it has no symbols: it was stripped",
        "l:x*: /l: there is no function 'x*'",
        "many:*: /many: 4,097 functions match, more than 4,096; choose fewer",
        "nowhere:f: no watched process has run a file named 'nowhere'",
        "s:f*: /s: there is no function 'f*', or it has no name, since the file was stripped",
    ]


def test_many_files_are_not_all_listed() -> None:
    """A pattern without a function in many files lists five, and the rest as a number."""
    made = patterns("l*:f")
    for number in range(100):
        made.functions(f"/l{number}", elf("g"))
    assert len(made.notes()) == 6
    assert made.notes()[-1] == "l*:f: and 59 more files"
