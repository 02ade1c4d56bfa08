"""Reading ELF files from disk: functions, slots, damaged files."""

import os
import platform
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
from tests.sparse_files import claiming

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.function_starts import FunctionStarts
from scope_bpf.code.libraries import files_of_command, installed_libraries
from scope_bpf.code.usdt import sites
from scope_bpf.errors import NotElf

SOURCE = """
#include <math.h>
#include <stdio.h>
__attribute__((noinline)) int shared_one(int a) { return puts("x") + a; }
__attribute__((noinline)) static int local_one(int a) { volatile int b = a; return shared_one(b); }
#ifdef __x86_64__
__asm__(".type without_push, @function; without_push: endbr64; sub $8, %rsp; add $8, %rsp; ret;"
        ".size without_push, .-without_push");
#endif
int main(int argc, char **argv) { return local_one(argc) + (int)cos(argc); }
"""

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles SOURCE with some flags."""
    folder = tmp_path_factory.mktemp("elf")
    (folder / "source.c").write_text(SOURCE)

    def made(name: str, *flags: str) -> Path:
        command: list[str | Path] = [
            "gcc",
            "-O1",
            "-fno-omit-frame-pointer",
            *flags,
            "-o",
            folder / name,
            folder / "source.c",
            "-lm",
        ]
        subprocess.run(command, check=True)
        return folder / name

    return made


def test_functions_by_name(build: Build) -> None:
    """Global and local functions are found where nm shows them; imported functions are not found."""
    path = build("program")
    listed = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    addresses = {words[2]: int(words[0], 16) for line in listed.splitlines() if len(words := line.split()) == 3}
    with FileIO(path) as file:
        elf = ElfFile(file)
        found = elf.functions(["shared_one", "local_one", "main", "puts", "one"])
        assert {name: elf.address_of(offset) for name, offset in found.items()} == {
            name: addresses[name] for name in ("shared_one", "local_one", "main")
        }
        assert elf.symbols
        assert elf.symbols.name_at(addresses["local_one"] + 3) == "local_one"
        assert elf.symbols.name_at(addresses["local_one"], begin=True) == "local_one"
        assert elf.symbols.name_at(addresses["local_one"] + 3, begin=True) is None
        assert len(elf.slots("puts")) == 1
        assert elf.slots("shared_one") == []


def test_nothing_is_read_for_no_names(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of which no function is wanted costs no reading of its tables."""
    with FileIO(build("program")) as file:
        elf = ElfFile(file)
        monkeypatch.delattr(os, "pread")
        assert elf.functions([]) == {}
        with pytest.raises(AttributeError):
            elf.functions(["main"])


def test_a_stripped_file_has_what_it_shares(build: Build) -> None:
    """In a stripped library, exported functions are found; local functions are not."""
    with FileIO(build("library", "-shared", "-fPIC", "-s")) as file:
        elf = ElfFile(file)
        assert elf.symbols is None
        assert list(elf.functions(["shared_one", "local_one"])) == ["shared_one"]


def test_the_cheapest_instruction(build: Build) -> None:
    """endbr64 is skipped only if a push follows."""
    x86: tuple[tuple[str, list[str], bytes, int], ...] = (
        ("main", ["-fcf-protection=full"], b"\xf3\x0f\x1e\xfa\x55", 4),
        ("main", ["-fcf-protection=none"], b"\x55", 0),
        ("without_push", [], b"\xf3\x0f\x1e\xfa\x48", 0),
    )
    others: tuple[tuple[str, list[str], bytes, int], ...] = (("main", [], b"", 0),)
    for name, flags, code, skipped in x86 if platform.machine() == "x86_64" else others:
        with FileIO(build("program", *flags)) as file:
            elf = ElfFile(file)
            offset = elf.functions([name])[name]
            assert elf.read(offset, len(code)) == code
            assert elf.cheapest_probe(offset) == offset + skipped


def test_what_is_no_elf_file_is_refused(tmp_path: Path) -> None:
    """Text, empty files and 32-bit files are refused."""
    for number, content in enumerate((b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(60))):
        path = tmp_path / str(number)
        path.write_bytes(content)
        with FileIO(path) as file, pytest.raises(NotElf):
            ElfFile(file)


def test_a_damaged_file_does_no_harm(build: Build, tmp_path: Path) -> None:
    """Reading a damaged file ends with a result or with NotElf."""
    whole = build("damaged").read_bytes()
    chance = random.Random(7)
    for number in range(200):
        damaged = bytearray(whole[: chance.randrange(64, len(whole))] if number % 2 else whole)
        for _ in range(40):
            damaged[chance.randrange(6, min(len(damaged), 4096 if number % 3 else len(damaged)))] = chance.randrange(
                256
            )
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        with FileIO(path) as file:
            try:
                elf = ElfFile(file)
            except NotElf:
                continue
            for offset in elf.functions(["main", "shared_one", "puts"]).values():
                elf.cheapest_probe(offset)
            elf.slots("puts")
            elf.pointers_at(np.array([0x4000, 0x3FF8]))
            elf.text_at(0x2000)
            if elf.symbols:
                elf.symbols.name_at(0x1234)


def test_the_files_of_a_command(build: Build, tmp_path: Path) -> None:
    """A command's files are the program and the libraries that its loader lists; for a script, its interpreter's."""
    path = build("program")
    files = files_of_command(str(path))
    assert files[0] == str(path)
    assert {Path(name).name.partition(".")[0] for name in files[1:]} >= {"libm", "libc"}
    script = tmp_path / "script"
    script.write_text(f"#!{path} -x\n")
    assert files_of_command(str(script)) == files
    (tmp_path / "text").write_text("no program")
    assert files_of_command(str(tmp_path / "text")) == []


@pytest.mark.parametrize("path", [sys.executable, "/bin/sh", "/bin/ls"])
def test_the_build_id(path: str) -> None:
    """The build id is the one that readelf shows; empty if there is none."""
    said = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    wanted = re.search(r"Build ID: ([0-9a-f]+)", said)
    with FileIO(path) as file:
        assert ElfFile(file).build_id == (wanted[1] if wanted else "")


def test_no_build_id(tmp_path: Path) -> None:
    program = tmp_path / "none"
    source = b"int main(void) { return 0; }"
    subprocess.run(["gcc", "-x", "c", "-", "-Wl,--build-id=none", "-o", program], input=source, check=True)
    with FileIO(program) as file:
        assert ElfFile(file).build_id == ""


def test_installed_libraries() -> None:
    """Libraries in the loader's cache are found by the prefix of their names; every path exists."""
    found = installed_libraries(("libc.so", "libnothing"))
    assert found
    assert {Path(path).name for path in found} == {"libc.so.6"}
    assert all(Path(path).exists() for path in found)


def test_a_sparse_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 512 MiB without data costs no reading and little memory, whatever its tables claim; what is left out is
    told."""
    read, pread = 0, os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        nonlocal read
        read += size
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    with claiming(tmp_path / "sparse", 1 << 29) as file:
        elf = ElfFile(file)
        tracemalloc.start()
        assert elf.symbols
        assert elf.symbols.name_at(1 << 20) is None
        assert FunctionStarts(elf).start_of(1 << 20) is None
        assert (elf.slots("puts"), sites(elf)) == ([], [])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert read < 1 << 20
    assert peak < 1 << 28
    assert {".symtab", ".eh_frame"} <= elf.left_out.keys()
    assert elf.left_out[".symtab"] == ".symtab: all but 4,194,304 of 22,368,938 symbols"
