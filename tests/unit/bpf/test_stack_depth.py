"""The stacks of the probes' programs are small enough for the verifiers of all kernels."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scope_bpf.catalogue.probe import OBJECTS
from scope_bpf.layout.elf_headers import SYMBOL, Headers
from scope_bpf.probes import probes

# check_max_stack_depth in kernel/bpf/verifier.c. Newer kernels count in smaller units.
ALLOWED = 512  # bytes, of all functions that are open at a time
UNIT = 32  # a frame takes at least one

# include/uapi/linux/bpf.h
INSTRUCTION = np.dtype([("code", "u1"), ("registers", "u1"), ("offset", "<i2"), ("constant", "<i4")])
LOADS, STORES = (1,), (2, 3)  # classes, in the low bits of the code
ADD_CONSTANT, COPY, CALL, LOAD_ADDRESS = 0x07, 0xBF, 0x85, 0x18
FRAME_POINTER = 10
PSEUDO_CALL = 1  # in place of the source register: calls a function of the object

# elf(5)
RELOCATION = np.dtype([("at", "<u8"), ("type", "<u4"), ("symbol", "<u4")])
FUNCTION, SECTION = 2, 3  # types of symbols

Array = np.ndarray[Any, np.dtype[Any]]
Place = tuple[int, int]  # a section, and an instruction in it


@dataclass(frozen=True)
class Function:
    """A function of an object: the size of its frame in bytes, and the functions that it calls or passes on."""

    name: str
    frame: int
    calls: frozenset[Place]


def functions_of(path: Path) -> dict[Place, Function]:
    """The functions of an object."""
    data = path.read_bytes()
    headers = Headers(lambda offset, size: data[offset : offset + size])

    def table(section: bytes, dtype: Any) -> Array:
        found = headers.sections.get(section)
        return np.frombuffer(b"" if found is None else data[found["offset"] :][: found["size"]], dtype)

    symbols, names = table(b".symtab", SYMBOL), table(b".strtab", np.uint8).tobytes()
    functions = symbols[symbols["info"] & 0xF == FUNCTION]
    starts = {(int(each["section"]), int(each["value"]) // INSTRUCTION.itemsize): each for each in functions}
    found = {}
    for (number, first), function in starts.items():
        section = headers.section_names[number]
        code = table(section, INSTRUCTION)[first:][: int(function["size"]) // INSTRUCTION.itemsize]
        named = {
            int(each["at"]) // INSTRUCTION.itemsize - first: symbols[each["symbol"]]
            for each in table(b".rel" + section, RELOCATION)
        }
        calls = {place for place in _named((number, first), code, named) if place in starts}
        name = names[function["name"] :].partition(b"\0")[0].decode()
        found[number, first] = Function(name, _frame(code), frozenset(calls))
    return found


def _frame(code: Array) -> int:
    """The lowest place below the frame pointer that is read, written or computed."""
    to, of, kind = code["registers"] & 0xF, code["registers"] >> 4, code["code"] & 7
    based = np.isin(kind, LOADS) & (of == FRAME_POINTER) | np.isin(kind, STORES) & (to == FRAME_POINTER)
    places = code["offset"][based].tolist()
    for at in np.flatnonzero((code["code"] == COPY) & (of == FRAME_POINTER)):
        added = (code["code"][at:] == ADD_CONSTANT) & (to[at:] == to[at])
        places.append(int(code["constant"][at:][added][0]))
    return -min(places, default=0)


def _named(start: Place, code: Array, named: dict[int, Any]) -> Iterator[Place]:
    """The places that calls and addresses in the code of a function name, among them those of data."""
    section, first = start
    for at, (operation, registers, _, constant) in enumerate(code.tolist()):
        calls = operation == CALL and registers >> 4 == PSEUDO_CALL
        if calls and at not in named:
            yield section, first + at + 1 + constant
        elif calls or (operation == LOAD_ADDRESS and at in named):
            symbol = named[at]
            # What a section's symbol lacks is in the instruction: to be added to the next one's number, or in bytes.
            within = constant + 1 if calls else constant // INSTRUCTION.itemsize
            place = int(symbol["value"]) // INSTRUCTION.itemsize
            yield int(symbol["section"]), place + within * (symbol["info"] & 0xF == SECTION)


def deepest(functions: dict[Place, Function], place: Place) -> tuple[int, list[str]]:
    """The bytes of stack that the deepest chain of calls from a function takes, and the chain."""
    function = functions[place]
    size, chain = max((deepest(functions, each) for each in function.calls), default=(0, []))
    return size + -(-max(function.frame, 1) // UNIT) * UNIT, [f"{function.name} {function.frame}", *chain]


CHAIN = """
#define SEC(name) __attribute__((section(name), used))
#define FRAME(size) char bytes[size]; asm volatile("" : : "r"(bytes) : "memory")
static long (*bpf_loop)(unsigned, void *, void *, unsigned long long) = (void *)181;
static __attribute__((noinline)) int leaf(void) { FRAME(40); return bytes[0]; }
__attribute__((noinline)) int global(int a) { FRAME(104); return leaf() + bytes[0]; }
static long visit(unsigned i, void *data) { FRAME(64); return global(i) + bytes[0]; }
SEC("raw_tp/a") int loops(void *ctx) { FRAME(8); return bpf_loop(3, visit, 0, 0) + bytes[0]; }
static SEC("raw_tp/a") __attribute__((noinline)) int near(void) { FRAME(200); return bytes[0]; }
SEC("raw_tp/a") int calls(void *ctx) { FRAME(16); return near() + leaf() + bytes[0]; }
SEC("raw_tp/b") int flat(void *ctx) { return 0; }
"""


def test_chains_of_calls_are_measured(tmp_path: Path) -> None:
    """Frames add up over calls of functions in the same and in another section, and over callbacks."""
    (tmp_path / "chain.c").write_text(CHAIN)
    subprocess.run(["clang", "-O2", "-target", "bpf", "-mcpu=v3", "-c", "chain.c"], cwd=tmp_path, check=True)
    functions = functions_of(tmp_path / "chain.o")
    found = {function.name: deepest(functions, place) for place, function in functions.items()}
    assert found["loops"] == (32 + 64 + 128 + 64, ["loops 8", "visit 64", "global 104", "leaf 40"])
    assert found["calls"] == (32 + 224, ["calls 16", "near 200"])
    assert found["flat"] == (32, ["flat 0"])


@pytest.mark.parametrize("probe", [name for name, probe in probes().items() if not probe.sampler])
def test_stacks_are_small_enough(probe: str) -> None:
    """No chain of calls takes more stack than the oldest kernel allows; the kernel that runs this may allow more."""
    functions = functions_of(OBJECTS / f"{probe}.bpf.o")
    assert functions
    size, chain = max(deepest(functions, place) for place in functions)
    assert size <= ALLOWED, f"{size} bytes: {', '.join(chain)}"
