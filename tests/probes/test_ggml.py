"""`ggml`: graphs of real llama.cpp builds, and memory as a program tells it."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.llm.node import node_folder
from tests.llm.runs import CACHE, recorded_run, serving
from tests.probes.recording import Record

from scope_bpf.catalogue.described import described_stream
from scope_bpf.probes import probe_named
from scope_views.flames.folded import Folded

SCHEDULED, ON_CPU = "backend_sched_graph_compute_async", "graph_compute"
PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns")

# Allocates prime numbers of bytes and frees every third; its library is the real one, or one with the pool's names.
MEMORY = """
import ctypes, os, signal, sys
library = ctypes.CDLL(sys.argv[1])
allocate, free = (getattr(library, name) for name in sys.argv[2:4])
allocate.restype, free.argtypes = ctypes.c_void_p, None
sizes = [101, 211, 307, 401, 503, 601, 701]
os.kill(os.getpid(), signal.SIGSTOP)
pool = len(sys.argv) > 4
real = ctypes.c_size_t()
first = [ctypes.c_void_p(7)] if pool else []
for number, size in enumerate(sizes):
    rest = [ctypes.byref(real)] if pool else []
    address = allocate(*first, ctypes.c_size_t(size), *rest)
    if number % 3 == 0:
        free(*first, ctypes.c_void_p(address), ctypes.c_size_t(real.value if pool else size))
free(*first, ctypes.c_void_p(0), ctypes.c_size_t(0))
"""

# A stand-in for the pool of libggml-cuda.so, which needs a GPU: the same names, and sizes rounded up to 128.
POOL = """
#include <cstdlib>
struct ggml_cuda_pool_vmm { void *alloc(size_t size, size_t *actual); void free(void *ptr, size_t size); };
void *ggml_cuda_pool_vmm::alloc(size_t size, size_t *actual) { return malloc(*actual = (size + 127) / 128 * 128); }
void ggml_cuda_pool_vmm::free(void *ptr, size_t) { ::free(ptr); }
"""

WORKLOADS = Path(__file__).parent / "workloads"

pytestmark = pytest.mark.timeout(600)  # the first test installs packages


def test_graphs_of_tokens(record: Record, model: Path, tmp_path: Path) -> None:
    """40 tokens of node-llama-cpp are 40 scheduled graphs, each with one on the CPU inside; their times have parts."""
    command = ["node", "generate.mjs", str(model), "40", "1"]
    recorded = recorded_run(record, command, tmp_path / "told", node_folder(CACHE), probe="ggml")
    rows = recorded.rows("ggml_graph")
    assert Counter((row["function"], row["nested"]) for row in rows if row["function"] in (SCHEDULED, ON_CPU)) == {
        (SCHEDULED, 0): 40,
        (ON_CPU, 1): 40,
    }
    assert {row["result"] for row in rows} == {0}
    nodes = Counter(row["nodes"] for row in rows if row["function"] == SCHEDULED)
    assert min(nodes) > 20
    assert all(row["leafs"] > 0 for row in rows if row["function"] == SCHEDULED)
    known = [row for row in rows if row["on_cpu_ns"] is not None]
    assert len(known) > len(rows) / 2
    assert all(sum(row[part] for part in PARTS) == row["duration_ns"] for row in known)
    assert recorded.accounts["ggml_graph"].lost == {}


@pytest.mark.alone  # its threads wait for each other in loops: minutes on a busy machine
def test_graphs_of_a_server(record: Record, model: Path, tmp_path: Path) -> None:
    """A newer llama.cpp has as many graphs as batches; all its host memory is freed."""
    command = serving(model, "1", "0", "-", "20*30")
    batches = recorded_run(record, command, tmp_path / "told").rows("llama_decode")
    recorded = recorded_run(record, command, tmp_path / "told", probe="ggml")
    graphs = [row for row in recorded.rows("ggml_graph") if row["function"] == SCHEDULED]
    assert len(graphs) == len(batches) > 30
    last = recorded.rows("ggml_memory")[-1]
    assert (last["memory"], last["live_bytes"], last["live_count"]) == ("host", 0, 0)
    assert last["peak_bytes"] > 0


def test_an_exec_frees_all_memory(record: Record, tmp_path: Path) -> None:
    """A process that runs another program holds nothing of the one before."""
    library = next(node_folder(CACHE).glob("node_modules/@node-llama-cpp/linux-x64/bins/*/libggml-base.so"))
    script = MEMORY + "os.execl('/bin/true', 'true')"
    command = [sys.executable, "-c", script, str(library), "ggml_aligned_malloc", "ggml_aligned_free"]
    recorded = recorded_run(record, command, tmp_path / "told", probe="ggml")
    last = recorded.rows("ggml_memory")[-1]
    assert (last["live_bytes"], last["live_count"], last["allocations"]) == (0, 0, 7)


def test_memory_by_stack(record: Record, tmp_path: Path) -> None:
    """With stacks, allocations have theirs, of code without frame pointers; unfreed memory is told by stack."""
    program = tmp_path / "memory"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-o", program, WORKLOADS / "ggml_memory.c"], check=True)
    recorded = recorded_run(record, [str(program)], tmp_path / "told", probe="ggml", stacks=True)
    rows = [row for row in recorded.rows("ggml_allocation") if row["function"] == "aligned_malloc"]
    by_stack: Counter[str] = Counter()
    for row in rows:
        by_stack[";".join(row["stack"].split(";")[-2:])] += row["bytes"]
    assert by_stack == {"main;weights": 3 * (1009 + 4001), "main;scratch": 5 * 2003}
    assert all(row["stack"] is None for row in recorded.rows("ggml_allocation") if row["function"] == "aligned_free")
    latest = {row["stack_id"]: row for row in recorded.rows("ggml_live")}.values()
    unfreed = {
        (row["stack"].split(";")[-1], row["allocations"], row["live_count"], row["live_bytes"]) for row in latest
    }
    assert unfreed == {("weights", 3, 3, 3 * 1009), ("weights", 3, 3, 3 * 4001), ("scratch", 5, 0, 0)}
    ggml = probe_named("ggml")
    drawn = {
        stream.name: Folded(described_stream(ggml, stream)) for stream in ggml.public_streams if stream.shown.flame
    }
    for name, of_stream in drawn.items():
        for batch in recorded.batches[name]:
            of_stream.add(batch)
    assert drawn["ggml_live"].total == 3 * 1009 + 3 * 4001
    tree = drawn["ggml_allocation"].tree()
    assert tree.total == 3 * (1009 + 4001) + 5 * 2003
    assert {tuple(tree.labels[frame] for frame in frames[-3:]) for frames, _ in tree.stacks()} == {
        ("main", "weights", "aligned_malloc"),
        ("main", "scratch", "aligned_malloc"),
    }


def test_no_stacks_unless_wanted(record: Record, tmp_path: Path) -> None:
    """Without the option, there are neither stacks nor rows by stack."""
    program = tmp_path / "memory"
    subprocess.run(["gcc", "-O2", "-o", program, WORKLOADS / "ggml_memory.c"], check=True)
    recorded = recorded_run(record, [str(program)], tmp_path / "told", probe="ggml")
    assert {row["stack"] for row in recorded.rows("ggml_allocation")} == {None}
    assert recorded.rows("ggml_live") == []


@pytest.mark.parametrize("kind", ["host", "pool"])
def test_memory(record: Record, tmp_path: Path, kind: str) -> None:
    """Sizes, and what is not freed, are exact: of the real library, and of one with the names of the GPU's pool."""
    if kind == "host":
        library = next(node_folder(CACHE).glob("node_modules/@node-llama-cpp/linux-x64/bins/*/libggml-base.so"))
        names, sizes = ["ggml_aligned_malloc", "ggml_aligned_free"], [101, 211, 307, 401, 503, 601, 701]
    else:
        (tmp_path / "pool.cpp").write_text(POOL)
        library = tmp_path / "libggml-cuda.so"
        subprocess.run(["g++", "-shared", "-fPIC", "-o", library, tmp_path / "pool.cpp"], check=True)
        names = ["_ZN18ggml_cuda_pool_vmm5allocEmPm", "_ZN18ggml_cuda_pool_vmm4freeEPvm", "pool"]
        sizes = [128, 256, 384, 512, 512, 640, 768]
    command = [sys.executable, "-c", MEMORY, str(library), *names]
    recorded = recorded_run(record, command, tmp_path / "told", probe="ggml")
    rows = recorded.rows("ggml_allocation")
    freed = sizes[::3]
    assert [row["bytes"] for row in rows if row["function"].endswith("alloc")] == sizes
    assert [row["bytes"] for row in rows if row["function"].endswith("free")] == freed
    last = recorded.rows("ggml_memory")[-1]
    assert (last["memory"], last["allocations"], last["frees"], last["unknown_frees"]) == (kind, 7, 3, 0)
    assert (last["live_count"], last["live_bytes"]) == (4, sum(sizes) - sum(freed))
    assert last["allocated_bytes"] == sum(sizes)
