"""Kernels read from the machine code of intact and damaged files: a name is right, or it is absent."""

import random
import re
import struct
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.probes.cuda_programs import Nvcc

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.modules import Module
from scope_bpf.errors import NotElf
from scope_bpf.probes.cuda import PROBE
from scope_bpf.probes.cuda.kernel_names import KernelNames
from scope_bpf.probes.cuda.registrations import find_handles, find_kernels
from scope_bpf.probes.cuda.stripped import find_launch_functions

KERNELS = 37
SOURCE = """
template <int N> __global__ void kernel(int *p) { p[0] = N; }
template <int N> void launch(int *p) {
  kernel<N><<<N, 1>>>(p);
  if constexpr (N > 1)
    launch<N - 1>(p);
}
int main() { launch<%d>(nullptr); }
"""
LINKED = {"optimized": ("-O2",), "plain": (), "shared": ("-cudart", "shared"), "library": ("-shared", "-O2")}
LINKED["library"] += ("-Xcompiler", "-fPIC")
SINGLE = {"single": ("-O2",), "single plain": ()}  # with one kernel
FILL = (b"\x90", b"\xcc", b"\x00")  # nop, int3, zeros

Span = tuple[int, int]  # begin and end, as offsets in the file


@dataclass(frozen=True)
class Registration:
    """The registration of a kernel in the code, as objdump shows it."""

    host_function: int
    loads: tuple[Span, Span]  # the instructions that load the host function's address and its name's
    call: Span


@dataclass(frozen=True)
class Truth:
    """A program as nm and objdump show it, and its stripped copy."""

    path: Path
    stripped: Path
    kernels: dict[int, str]
    handles: set[int]
    functions: dict[str, int]
    registrations: tuple[Registration, ...]

    @property
    def both(self) -> tuple[Path, Path]:
        return self.path, self.stripped


@dataclass(frozen=True)
class Found:
    kernels: dict[int, str | None]
    handles: dict[int, int]
    functions: dict[str, int]


def look_at(path: Path) -> Found | None:
    """Everything that is read from a file's code; None if ElfFile raises NotElf."""
    with FileIO(path) as file:
        try:
            elf = ElfFile(file)
        except NotElf:
            return None
        kernels = find_kernels(elf)
        handles = find_handles(elf, kernels)
        named = {address: kernels.name_of(address) for address in kernels.functions.tolist()}
        for address in named:
            for symbols in (elf.symbols, elf.dynamic_symbols):
                if symbols:
                    symbols.name_at(address, begin=True)
        nothing: Any = SimpleNamespace(map=lambda _: None)  # no BPF object is loaded: only files are read
        names = KernelNames(nothing, nothing, PROBE.key_layout("cuda_names").dtype)
        module = Module(str(path), 1, elf)
        if names.add_module(module):
            names.find_functions(module)
        pairs = zip(handles.variables.tolist(), handles.functions.tolist(), strict=True)
        return Found(named, dict(pairs), find_launch_functions(elf, kernels))


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def registrations_of(elf: ElfFile, path: Path) -> Iterator[Registration]:
    loads: dict[str, tuple[Span, int]] = {}
    for line in output("objdump", "-d", "--insn-width=16", path).splitlines():
        match = re.match(r" *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)", line)
        if not match:
            continue
        offset = elf.offset_of(int(match[1], 16))
        assert offset is not None
        span = offset, offset + len(match[2].split())
        if lea := re.match(r"lea +\S+,%(rsi|rdx) +# ([0-9a-f]+)", match[3]):
            loads[lea[1]] = span, int(lea[2], 16)
        elif re.match(r"call +.*<__cudaRegisterFunction(@plt)?>", match[3]):
            yield Registration(loads["rsi"][1], (loads["rsi"][0], loads["rdx"][0]), span)
            loads = {}


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Truth]:
    """Builds the program, linked in one of several ways; each is built once."""
    folder = tmp_path_factory.mktemp("code")
    source, single, nvcc = folder / "source.cu", folder / "single.cu", Nvcc(folder)
    source.write_text(SOURCE % KERNELS)
    single.write_text(SOURCE % 1)
    known: dict[str, Truth] = {}

    def of(way: str) -> Truth:
        if way in known:
            return known[way]
        made, flags = (single, SINGLE[way]) if way in SINGLE else (source, LINKED[way])
        path, stripped = nvcc.build(way, str(made), *flags), folder / f"{way}.stripped"
        output("strip", "-o", stripped, path)
        listed = [line.split() for line in output("nm", "--defined-only", path).splitlines()]
        named = {words[2]: int(words[0], 16) for words in listed}
        with FileIO(path) as file:
            elf = ElfFile(file)
            wanted = ("cudaLaunchKernel", "__cudaGetKernel")
            offsets = {name: elf.offset_of(named[name]) for name in wanted if name in named}
            known[way] = Truth(
                path,
                stripped,
                {address: name for name, address in named.items() if re.fullmatch(r"_Z6kernelILi\d+EEvPi", name)},
                {address for name, address in named.items() if "kernel" in name and name.endswith("E8__handle")},
                {name: offset for name, offset in offsets.items() if offset is not None},
                tuple(registrations_of(elf, path)) if way == "optimized" else (),
            )
        return known[way]

    return of


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[bytes | bytearray], Path]:
    """Writes a file with these bytes."""

    def write(content: bytes | bytearray) -> Path:
        (tmp_path / "damaged").write_bytes(content)
        return tmp_path / "damaged"

    return write


@contextmanager
def bounds(seconds: float, most_bytes: int) -> Iterator[None]:
    """Limits the CPU time and the memory of the code in the `with` block."""
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < seconds
    assert peak < most_bytes


@pytest.mark.parametrize("way", sorted(LINKED | SINGLE))
def test_a_whole_file(truth: Callable[[str], Truth], way: str) -> None:
    """Every kernel has the name that nm shows for its host function, and every handle is found; stripped or not."""
    true = truth(way)
    assert len(true.kernels) == len(true.handles) == (1 if way in SINGLE else KERNELS)
    for path in true.both:
        found = look_at(path)
        assert found
        assert found.kernels == true.kernels
        assert found.handles.keys() == true.handles
        assert sorted(found.handles.values()) == sorted(true.kernels)


@pytest.mark.parametrize("way", ["optimized", "plain", "library", *SINGLE])
def test_what_launches_in_a_stripped_file(truth: Callable[[str], Truth], way: str) -> None:
    """In a stripped file, the two functions of a statically linked runtime are found where nm shows them."""
    true = truth(way)
    assert len(true.functions) == 2
    found = look_at(true.stripped)
    assert found
    assert found.functions == true.functions


def test_a_registration_that_is_gone(
    truth: Callable[[str], Truth], damaged: Callable[[bytes | bytearray], Path]
) -> None:
    """Kernels whose registration was overwritten are absent. All others keep their names."""
    true, chance = truth("optimized"), random.Random(11)
    assert {one.host_function for one in true.registrations} == set(true.kernels)
    for path in true.both:
        whole = path.read_bytes()
        for _ in range(20):
            gone = chance.sample(true.registrations, chance.randrange(1, KERNELS - 5))
            content = bytearray(whole)
            for one in gone:
                begin, end = min(begin for begin, _ in one.loads), one.call[1]
                content[begin:end] = chance.choice(FILL) * (end - begin)
            found = look_at(damaged(content))
            assert found
            left = true.kernels.keys() - {one.host_function for one in gone}
            assert found.kernels == {address: true.kernels[address] for address in left}
            assert all(true.functions[name] == offset for name, offset in found.functions.items())


@pytest.mark.parametrize("part", ["host function", "name", "call"])
def test_a_part_of_a_registration_that_is_gone(
    truth: Callable[[str], Truth], damaged: Callable[[bytes | bytearray], Path], part: str
) -> None:
    """A kernel with a damaged registration is absent; it never gets a neighbour's name. All others keep their names."""
    true = truth("optimized")
    for path in true.both:
        whole = path.read_bytes()
        for one in true.registrations[::4]:
            begin, end = {"host function": one.loads[0], "name": one.loads[1], "call": one.call}[part]
            found = look_at(damaged(whole[:begin] + FILL[0] * (end - begin) + whole[end:]))
            assert found
            expected = {address: name for address, name in true.kernels.items() if address != one.host_function}
            assert found.kernels == expected


def test_damage_elsewhere(truth: Callable[[str], Truth], damaged: Callable[[bytes | bytearray], Path]) -> None:
    """Damage in sections that are not read does not change the result."""
    true, chance = truth("optimized"), random.Random(13)
    sections = {
        words[0]: (int(words[3], 16), int(words[4], 16))
        for line in output("readelf", "-SW", true.stripped).splitlines()
        if len(words := line.partition("]")[2].split()) > 5 and words[0].startswith(".")
    }
    spans = [sections[name] for name in (".nv_fatbin", ".eh_frame", ".data", ".comment", ".note.gnu.build-id")]
    whole, expected = true.stripped.read_bytes(), look_at(true.stripped)
    assert expected
    assert len(expected.kernels) == KERNELS
    for _ in range(20):
        content = bytearray(whole)
        for _ in range(1000):
            offset, size = chance.choice(spans)
            content[offset + chance.randrange(size)] = chance.randrange(256)
        assert look_at(damaged(content)) == expected


@pytest.mark.parametrize("way", ["shared", "optimized"])
def test_any_damage(truth: Callable[[str], Truth], damaged: Callable[[bytes | bytearray], Path], way: str) -> None:
    """With random bytes, a cut end or false headers, reading ends within seconds: with a result or with NotElf."""
    chance = random.Random(17)
    huge = (1 << 64) - 1, (1 << 64) - 4096, 1 << 63, (1 << 63) - 1, 1 << 62, 1 << 47, 1 << 32
    answers = 0
    for path in truth(way).both:
        whole = path.read_bytes()
        (parts, sections), (part_count,) = struct.unpack_from("<QQ", whole, 32), struct.unpack_from("<H", whole, 56)
        (section_count,) = struct.unpack_from("<H", whole, 60)
        headers = (parts, part_count * 56), (sections, section_count * 64)
        for number in range(120):
            content = bytearray(whole)
            kind = number % 4
            begin, size = ((64, len(whole) - 64), (16, 48), *headers)[kind]
            for _ in range(chance.choice((1, 5, 30) if kind else (10, 1000, 20_000))):
                content[begin + chance.randrange(size)] = chance.choice((0, 0x7F, 0xFF, chance.randrange(256)))
            if kind > 1:
                for _ in range(chance.randrange(4)):
                    struct.pack_into("<Q", content, begin + 8 * chance.randrange(size // 8), chance.choice(huge))
            if number % 3 == 0:
                del content[chance.randrange(64, len(content)) :]
            began = time.process_time()
            found = look_at(damaged(content))
            assert time.process_time() - began < 5
            answers += bool(found and found.kernels)
    assert answers > 60, "what is damaged here and there can be read still"


def elf_file(parts: bytes = b"", sections: bytes = b"", names: int = 0, more: bytes = b"") -> bytes:
    """An ELF file: headers, then `more`."""
    counts = len(parts) // 56, 64, len(sections) // 64, names
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64 + len(parts), 0, 64, 56, *counts)
    return ident + header + parts + sections + more


def section(name: int, kind: int = 1, offset: int = 0, size: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)


def code(offset: int, size: int) -> bytes:
    """The header of an executable segment."""
    return struct.pack("<IIQQQQQQ", 1, 5, offset, offset, 0, size, size, 4096)


def test_sections_with_endless_names(damaged: Callable[[bytes | bytearray], Path]) -> None:
    """A file with the maximum number of sections, each with an endless name, needs little memory."""
    sections = b"".join(section(number, offset=64 + 0xFFFF * 64, size=1 << 20) for number in range(0xFFFF))
    path = damaged(elf_file(sections=sections, more=b"x" * (1 << 20)))
    with bounds(10, 100 << 20):
        found = look_at(path)
    assert found == Found({}, {}, {})


def test_the_same_code_many_times(damaged: Callable[[bytes | bytearray], Path]) -> None:
    """Code that 30,000 segments cover is searched once, not once per segment."""
    parts, size = 30_000, 1 << 22
    path = damaged(elf_file(parts=code(0, size) * parts, more=b"\xe8\0\0\0\0" * (size // 5)))
    with bounds(20, 400 << 20):
        found = look_at(path)
    assert found == Found({}, {}, {})


def test_a_file_with_a_hole(damaged: Callable[[bytes | bytearray], Path]) -> None:
    """A table of a terabyte in a sparse file costs little: a hole is not read."""
    names = b"\0.symtab\0.strtab\0"
    at = 64 + 3 * 64
    sections = section(0, offset=at, size=len(names)) + section(1, offset=4096, size=1 << 40)
    sections += section(9, offset=4096, size=1 << 40)
    path = damaged(elf_file(sections=sections, more=names))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with FileIO(path) as file, bounds(5, 16 << 20):
        elf = ElfFile(file)
        assert elf.symbols
        assert elf.functions(["cudaMalloc"]) == {}
