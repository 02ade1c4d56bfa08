"""Which operator a function computes, by its name."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.modules import Module
from scope_bpf.probes.llama.operators import computes, kind_of, ranges_of

SOURCE = """
#define KEPT __attribute__((noinline, noclone, used))
static volatile int sink;
KEPT void ggml_compute_forward_mul_mat(void) { for (int i = 0; i < 9; i++) sink += i; }
KEPT static void ggml_vec_dot_q4_K_q8_K(void) { for (int i = 0; i < 9; i++) sink -= i; }
KEPT void ggml_graph_plan(void) { for (int i = 0; i < 9; i++) sink ^= i; }
KEPT void ggml_barrier(void) { for (int i = 0; i < 9; i++) sink |= i; }
KEPT void ggml_compute_forward_soft_max(void) { for (int i = 0; i < 9; i++) sink &= i; }
int main(void) { return sink; }
"""


@pytest.mark.parametrize(
    ("symbol", "kind"),
    [
        ("ggml_compute_forward_mul_mat", "MATMUL"),
        ("ggml_vec_dot_q4_K_q8_K", "MATMUL"),
        ("_ZN12_GLOBAL__N_18tinyBLASILi8EDv8_fS1_fffE10gemm_blocILi4ELi3EEEvll", "MATMUL"),
        ("ggml_gemv_q4_0_8x8_q8_0", "MATMUL"),
        ("_ZN4ggml3cpu6repack13tensor_traitsI10block_q4_0Ll8ELl8EL9ggml_type8EE15compute_forwardEP19", "MATMUL"),
        ("_Z17tiled_repack_src1P15tiled_tile_src1iib", "MATMUL"),
        ("quantize_row_q8_0", "MATMUL"),
        ("ggml_compute_forward_flash_attn_ext", "ATTENTION"),
        ("_ZL29ggml_compute_forward_rope_fltIfEvPK19ggml_compute_paramsP11ggml_tensorb", "ATTENTION"),
        ("ggml_vec_soft_max_f32", "ATTENTION"),
        ("ggml_compute_forward_get_rows", "COPY"),
        ("ggml_compute_forward_dup_bytes", "COPY"),
        ("ggml_compute_forward_set_rows", "COPY"),
        ("ggml_compute_forward_rms_norm", "ELEMENTWISE"),
        ("ggml_compute_forward_add_non_quantized", "ELEMENTWISE"),
        ("ggml_compute_forward_repeat_back", "COPY"),
        ("ggml_compute_forward_concat", "COPY"),
        ("ggml_compute_forward_conv_2d", "ELEMENTWISE"),
        ("ggml_vec_silu_f32", "ELEMENTWISE"),
        ("ggml_barrier", "BARRIER"),
        ("ggml_graph_compute_secondary_thread", "BARRIER"),
        ("ggml_graph_plan", "OTHER"),
        ("llama_model_gemma3_graph", "OTHER"),
        ("malloc", "OTHER"),
    ],
)
def test_kinds_of_functions(symbol: str, kind: str) -> None:
    """Names from builds of llama.cpp of 2024 to 2026, mangled as they are in the file."""
    assert kind_of(symbol) == kind


Opened = Callable[..., Module]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens a file as a module, also under another name."""
    with ExitStack() as files:
        yield lambda path, called="": Module(
            called or str(path), 1, ElfFile(files.enter_context(path.open("rb", buffering=0)))
        )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a few functions of ggml."""
    path = tmp_path_factory.mktemp("operators") / "program"
    subprocess.run(["gcc", "-O1", "-x", "c", "-o", path, "-"], input=SOURCE, text=True, check=True)
    return path


def test_every_function_is_in_a_range_of_its_kind(program: Path, opened: Opened) -> None:
    """Compared with what nm tells: at the first and at the last byte of each function."""
    module = opened(program)
    assert computes(module)
    ranges = ranges_of(module)
    assert [at for at, _ in ranges] == sorted({at for at, _ in ranges})
    told = subprocess.run(["nm", "--print-size", program], capture_output=True, text=True, check=True).stdout
    found = [line.split() for line in told.splitlines() if line.count(" ") == 3 and " t " in line.lower()]
    functions = {name: (int(at, 16), int(size, 16)) for at, size, _, name in found}
    assert len(functions) >= 6
    for name, (address, size) in functions.items():
        for byte in (address, address + size - 1):
            offset = module.elf.offset_of(byte)
            assert offset is not None
            assert [kind for at, kind in ranges if at <= offset][-1] == kind_of(name)


def test_a_file_without_operators_is_not_kept(tmp_path: Path, opened: Opened) -> None:
    """Most files of a process compute nothing of ggml's."""
    path = tmp_path / "program"
    subprocess.run(["gcc", "-x", "c", "-o", path, "-"], input="int main(void) { return 0; }", text=True, check=True)
    assert not computes(opened(path))


def test_a_stripped_file_has_the_kinds_that_it_exports(program: Path, tmp_path: Path, opened: Opened) -> None:
    """Without the full symbol table, the dynamic one counts; without both, nothing is known."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    assert not computes(opened(stripped))
    library = tmp_path / "library.so"
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-s", "-x", "c", "-o", library, "-"], input=SOURCE, text=True, check=True
    )
    assert {kind for _, kind in ranges_of(opened(library))} >= {"MATMUL", "BARRIER", "ATTENTION", "OTHER"}


@pytest.mark.parametrize(
    ("name", "kind"), [("libopenblas.so.0", "MATMUL"), ("libgomp.so.1", "BARRIER"), ("libiomp5.so", "BARRIER")]
)
def test_libraries_of_one_kind(program: Path, opened: Opened, name: str, kind: str) -> None:
    """All code of a BLAS multiplies matrices; that of OpenMP waits for other threads."""
    assert ranges_of(opened(program, f"/usr/lib/{name}")) == [(0, kind)]


def test_a_function_without_a_name_is_of_the_kind_of_the_next_one(tmp_path: Path, opened: Opened) -> None:
    """In stripped libraries, static functions have no names; they lie before the functions that call them."""
    source = """
    #define KEPT __attribute__((noinline, noclone, used))
    static volatile int sink;
    KEPT void ggml_graph_plan(void) { sink++; }
    static KEPT void hidden(void) { REPEATED }
    KEPT void ggml_compute_forward_mul_mat(void) { hidden(); }
    KEPT void ggml_barrier(void) { sink--; }
    """.replace("REPEATED", "sink *= 3; " * 40)
    library = tmp_path / "library.so"
    build: list[str | Path] = ["gcc", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC", "-x", "c", "-o", library, "-"]
    subprocess.run(build, input=source, text=True, check=True)
    told = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    (at,) = (int(line.split()[0], 16) for line in told.splitlines() if line.endswith(" hidden"))
    subprocess.run(["strip", library], check=True)
    module = opened(library)
    offset = module.elf.offset_of(at + 32)
    assert offset is not None
    assert [kind for start, kind in ranges_of(module) if start <= offset][-1] == "MATMUL"


def test_a_function_without_a_name_is_of_the_kind_of_its_callers(tmp_path: Path, opened: Opened) -> None:
    """Whatever lies behind it, and also if its caller has no name either."""
    source = """
    #define KEPT __attribute__((noinline, noclone, used))
    static volatile int sink;
    static KEPT void inner(void) { REPEATED }
    static KEPT void outer(void) { REPEATED inner(); sink++; }
    KEPT void ggml_compute_forward_dup(void) { sink++; }
    KEPT void ggml_compute_forward_flash_attn_ext(void) { outer(); sink--; }
    """.replace("REPEATED", "sink *= 3; " * 40)
    library = tmp_path / "library.so"
    build: list[str | Path] = ["gcc", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC", "-x", "c", "-o", library, "-"]
    subprocess.run(build, input=source, text=True, check=True)
    told = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    hidden = [int(line.split()[0], 16) for line in told.splitlines() if line.endswith((" inner", " outer"))]
    subprocess.run(["strip", library], check=True)
    module = opened(library)
    offsets = [module.elf.offset_of(at + 32) for at in hidden]
    kinds = [[kind for start, kind in ranges_of(module) if start <= offset][-1] for offset in offsets if offset]
    assert kinds == ["ATTENTION"] * 2
