"""Functions of stripped files begin where their symbols were."""

import subprocess
from io import FileIO
from pathlib import Path

import pytest

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.frame_names import FrameNames
from scope_bpf.code.function_starts import FunctionStarts
from scope_bpf.code.modules import Module

SOURCE = """
#include <stdio.h>
static __attribute__((noinline)) int inner(int a) { puts("x"); return a * 3; }
__attribute__((noinline)) int outer(int a) { return inner(a) + inner(a + 1); }
int main(int argc, char **argv) { return outer(argc) + getchar(); }
"""
OWN = ("inner", "outer", "main")


def spans(path: Path) -> dict[str, tuple[int, int]]:
    """Address and size of each function, as nm tells them."""
    listed = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    found = (line.split() for line in listed.splitlines())
    return {words[3]: (int(words[0], 16), int(words[1], 16)) for words in found if len(words) == 4}


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, dict[str, tuple[int, int]]]:
    """A stripped program, and where its functions are."""
    path = tmp_path / "program"
    subprocess.run(["gcc", "-O1", "-Wl,-z,lazy", "-x", "c", "-", "-o", path], input=SOURCE, text=True, check=True)
    functions = spans(path)
    subprocess.run(["strip", path], check=True)
    return path, functions


def test_each_address_of_a_function(program: tuple[Path, dict[str, tuple[int, int]]]) -> None:
    """From its first byte to its last; not what is before or after it."""
    path, functions = program
    with FileIO(path) as file:
        starts = FunctionStarts(ElfFile(file))
    for name in OWN:
        address, size = functions[name]
        assert {starts.start_of(address + offset) for offset in range(size)} == {address}
        assert starts.start_of(address - 1) != address
        assert starts.start_of(address + size) != address
    assert starts.start_of(0) is starts.start_of(1 << 62) is None


def test_a_linkage_table_is_no_function(program: tuple[Path, dict[str, tuple[int, int]]]) -> None:
    """It has one description, but an entry for each function of other files."""
    with FileIO(program[0]) as file:
        elf = ElfFile(file)
        (address, code), *_ = elf.sections(".plt")
        assert FunctionStarts(elf).start_of(address + len(code) - 1) is None


def test_a_frame_without_a_name(program: tuple[Path, dict[str, tuple[int, int]]]) -> None:
    """One text for all of a function."""
    path, functions = program
    names = FrameNames()
    with FileIO(path) as file:
        module = Module(str(path), 0, ElfFile(file))
        for name in OWN:
            address, size = functions[name]
            begin = module.elf.offset_of(address)
            assert begin is not None
            texts = {names.at(module, begin + offset) for offset in range(size)}
            assert texts == {(f"program+{begin:#x} [{module.elf.build_id}]", False)}
        assert names.at(module, 3).text == f"program+0x3 [{module.elf.build_id}]"
