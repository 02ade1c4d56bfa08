"""`ggml`: what it finds in real builds of llama.cpp."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from tests.llm.node import cuda_backend, node_folder
from tests.llm.runs import CACHE, recorded_run
from tests.probes.recording import Record

from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.records import record_dtype
from scope_bpf.probes import probe_named
from scope_bpf.probes.ggml.functions import CUDA_FUNCTIONS
from scope_bpf.probes.ggml.tensors import TYPES, Tensors, tensors_of

NEWEST = "0.5.0"  # of llama.cpp in the pinned packages

# Maps a library's code as the loader would, without what it needs.
MAPS = """
import mmap, os, signal, sys
with open(sys.argv[1], 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 1 << 20, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
os.kill(os.getpid(), signal.SIGSTOP)  # a process that has ended before its files are read is not attached to
"""

pytestmark = pytest.mark.timeout(600)  # the first test downloads packages


def tensors(path: Path) -> Tensors | None:
    layout = record_dtype(probe_named("ggml").btf, "ggml_tensor")
    with path.open("rb", buffering=0) as file:
        return tensors_of(ElfFile(file), {name: field[1] for name, field in (layout.fields or {}).items()})


def test_tensors_of_a_build() -> None:
    """Names of operations and types are those that the library itself gives; its layout is the known one."""
    path = next(node_folder(CACHE).glob("node_modules/@node-llama-cpp/linux-x64/bins/*/libggml-base.so"))
    found = tensors(path)
    library = ctypes.CDLL(str(path))
    library.ggml_op_name.restype = library.ggml_type_name.restype = ctypes.c_char_p
    assert found
    assert found.name_at == 0
    assert len(found.operations) > 90
    numbers = range(len(found.operations))
    assert list(found.operations) == [library.ggml_op_name(number).decode() for number in numbers]
    named = {number: library.ggml_type_name(number).decode() for number in TYPES}
    assert named == TYPES


@pytest.mark.parametrize(
    "compiler", ["gcc -O1", "gcc -O2", "gcc -O3", "gcc -Os", "gcc -O2 -fcf-protection=full", "gcc -O0", "clang -O2"]
)
def test_tensors_are_right_or_unknown(tmp_path: Path, compiler: str) -> None:
    """Whatever a compiler makes of the functions, what is read is right; code that is not known is refused."""
    path = tmp_path / "libggml-base.so"
    source = Path(__file__).parent / "workloads/ggml_base.c"
    subprocess.run([*compiler.split(), "-fPIC", "-shared", "-s", "-o", path, source], check=True)
    if compiler in ("gcc -O0", "clang -O2"):
        with pytest.raises(LayoutMismatch, match=r"unknown: ggml_\w+ is not the known code"):
            tensors(path)
    else:
        assert tensors(path) == Tensors(
            0, ("NONE", "DUP", "ADD", "ADD_ID", "MUL_MAT", "CPY", "FLASH_ATTN_EXT", "UNARY")
        )


def test_functions_of_a_real_backend(record: Record, tmp_path: Path) -> None:
    """It attaches to exactly the declared functions that the library has, among 45,000 symbols."""
    library = cuda_backend(CACHE)
    listed = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout.splitlines()
    defined = {line.split()[-1] for line in listed if line.split()[-2] in "tTwW"}
    assert len(listed) > 45_000
    recorded = recorded_run(record, [sys.executable, "-c", MAPS, str(library)], tmp_path / "told", probe="ggml")
    declared = {one.symbol for one in CUDA_FUNCTIONS}
    attached = {place.name for place in recorded.places if place.files}
    assert attached & declared == declared & defined
    assert attached & declared == {one.symbol for one in CUDA_FUNCTIONS if one.versions[1] == NEWEST}
    pools = {"_ZN18ggml_cuda_pool_vmm5allocEmPm", "_ZN18ggml_cuda_pool_vmm4freeEPvm"}
    assert pools <= attached
