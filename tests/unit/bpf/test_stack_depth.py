"""The stacks of the probes' programs are small enough for the verifiers of all kernels."""

import subprocess
from pathlib import Path

import pytest
from tests.unit.bpf.functions import Function, Place, functions_of

from scope_bpf.catalogue.probe import OBJECTS
from scope_bpf.probes import probes

# check_max_stack_depth in kernel/bpf/verifier.c. Newer kernels count in smaller units.
ALLOWED = 512  # bytes, of all functions that are open at a time
UNIT = 32  # a frame takes at least one


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
