"""Patterns of functions: in which files they stand for what, and what is said where they stand for nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scope_bpf.capture.patterns import Match, Patterns
from scope_bpf.catalogue.place import Pattern, Place, Symbol


def patterns(*places: str) -> Patterns:
    made = [Place(Pattern(*place.split(":", 1)), "enter", "leave", begins_only="call") for place in places]
    return Patterns([Place(Symbol(("other",)), "enter"), *made])


def elf(*names: str, stripped: bool = False) -> Any:
    """A file with these functions, at 0x10, 0x20 and so on."""
    functions = {(name, 0x10 * (number + 1)) for number, name in enumerate(names)}
    table = SimpleNamespace(is_indirect=lambda name: name == "chosen")
    found = SimpleNamespace(symbols=None if stripped else table, dynamic_symbols=table if names else None)
    found.functions_containing = lambda literal: {pair for pair in functions if literal in pair[0]}
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
    ],
)
def test_files(file: str, path: str, is_it: bool) -> None:
    """A file is named by its last part, with or without what follows `.so`, or by its path."""
    assert bool(patterns(f"{file}:f").functions(path, elf("f"))) == is_it


def test_a_link_stands_for_its_file(tmp_path: Path) -> None:
    """Mappings have the path of the file itself."""
    (tmp_path / "program-1.2").touch()
    (tmp_path / "program").symlink_to(tmp_path / "program-1.2")
    found = patterns(f"{tmp_path}/program:f")
    assert found.paths == [f"{tmp_path}/program"]
    assert found.functions(f"{tmp_path}/program-1.2", elf("f"))
    assert patterns(f"{tmp_path}/nothing:f", f"{tmp_path}:f", f"{tmp_path}/*:f", "program:f").paths == []


def test_functions_have_the_number_of_their_place() -> None:
    """A function of two patterns belongs to the first. Only the begin of C++ and Rust functions is recorded."""
    found = patterns("l:f*", "l:*").functions("/l", elf("f", "f2", "g", "_ZN1a1bEv", "f.cold"))
    assert found == {0x10: Match(1, False), 0x20: Match(1, False), 0x30: Match(2, False), 0x40: Match(2, True)}


def test_names_of_the_same_function() -> None:
    """A function with several names is found by each of them."""
    alias = elf()
    alias.functions_containing = lambda _: {("__libc_malloc", 0x10), ("malloc", 0x10)}
    assert patterns("l:malloc").functions("/l", alias) == {0x10: Match(1, False)}


def test_what_is_missing_for_certain() -> None:
    """A full name that no file of this name has; not a pattern, and not if one of the files has it."""
    made = patterns("l:serve", "l:serve*", "k:f", "m:f")
    made.functions("/1/l", elf("server", "swerve"))
    made.functions("/1/k", elf("g"))
    made.functions("/2/k", elf("f"))
    assert made.missing() == ["/1/l: there is no function 'serve' (did you mean 'swerve' or 'server'?)"]
    made.functions("/3/l", elf("serves"))
    assert made.notes()[1] == "l:serve: /3/l: there is no function 'serve'"  # no search while the program runs


def test_notes() -> None:
    """For each pattern: that no file was run, why there is no function, and which functions have no duration."""
    made = patterns("nowhere:f", "l:chosen", "l:x*", "go:main.*", "s:f", "e:f", "cpp:*", "many:*")
    made.functions("/l", elf("f"))
    made.functions("/go", elf("main.run"))
    made.functions("/s", elf("g", stripped=True))
    made.functions("/e", elf(stripped=True))
    made.functions("/cpp", elf("_ZN1a1bEv", "_ZN1a1cEv", "f"))
    made.functions("/many", elf(*(f"f{number}" for number in range(4097))))
    assert made.notes() == [
        "nowhere:f: no watched process has run a file named 'nowhere'",
        "l:chosen: /l: the loader chooses one of several functions for 'chosen'; declare these by their names",
        "l:x*: /l: there is no function 'x*'",
        "go:main.*: /go: it is a function of Go, whose stacks move: recording it could end the program",
        "s:f: /s: there is no function 'f', or it has no name, since the file was stripped",
        "e:f: /e: it has no symbols: it was stripped",
        "cpp:*: 2 functions of C++ or Rust have no duration, because recording their return would end a program whose "
        "exception passes it",
        "many:*: /many: 4,097 functions match, more than 4,096; choose fewer",
    ]
