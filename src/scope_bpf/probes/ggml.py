"""ggml, the tensor library of llama.cpp, whisper.cpp and others: computed graphs, and memory that is not freed."""

from collections.abc import Mapping
from typing import Any

from scope_bpf.catalogue import spent
from scope_bpf.catalogue.place import Place, Symbol
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Counter, Latest, Live, Rollup, Slices, Timeline
from scope_bpf.catalogue.stream import Column, Mode, Stream

# Read in ggml-backend.h, ggml-cpu.h and ggml-cuda.cu of 2024 to 2026; arguments: `enum ggml_function` in ggml.h.
_CALLS = {
    "GGML_GRAPH_COMPUTE": "ggml_graph_compute",
    "GGML_BACKEND_GRAPH_COMPUTE": "ggml_backend_graph_compute",
    "GGML_BACKEND_GRAPH_COMPUTE_ASYNC": "ggml_backend_graph_compute_async",
    "GGML_BACKEND_SCHED_GRAPH_COMPUTE": "ggml_backend_sched_graph_compute",
    "GGML_BACKEND_SCHED_GRAPH_COMPUTE_ASYNC": "ggml_backend_sched_graph_compute_async",
    "GGML_ALIGNED_MALLOC": "ggml_aligned_malloc",
    "GGML_CUDA_POOL_ALLOC": "_ZN18ggml_cuda_pool_vmm5allocEmPm",  # throws no exceptions: errors abort the program
}
_FREES = {
    "GGML_ALIGNED_FREE": "ggml_aligned_free",
    "GGML_CUDA_POOL_FREE": "_ZN18ggml_cuda_pool_vmm4freeEPvm",
}


def _places(_: Mapping[str, Any]) -> tuple[Place, ...]:
    calls = (Place(Symbol((name,)), "ggml_enter", "ggml_return", {"function": kind}) for kind, name in _CALLS.items())
    frees = (Place(Symbol((name,)), "ggml_free", keep={"function": kind}) for kind, name in _FREES.items())
    return (*calls, *frees)


_MEMORY = Column("host: ggml_aligned_malloc; pool: parts of the pools that ggml keeps on GPUs")

PROBE = Probe(
    name="ggml",
    meaning="ggml, the library below llama.cpp and whisper.cpp: computed graphs, and memory that is not freed",
    streams=(
        Stream(
            "ggml_graph",
            "one row per finished computation of a graph, timed at entry",
            columns={
                "duration_ns": Column("from entry to return; a GPU may go on computing after it", "ns"),
                "function": Column("name of the function without ggml_"),
                "nodes": Column("operations in the graph; absent if the struct is not the known one"),
                "leafs": Column("constants and weights in the graph; absent if the struct is not the known one"),
                "result": Column("0: done; else an enum ggml_status; absent if the call did not return"),
                "nested": Column("1 if called from inside another recorded call: do not add it to the outer call"),
                **spent.COLUMNS,
            },
            hidden=("has_shape", "has_where", "has_result"),
            null_unless={
                **dict.fromkeys(("nodes", "leafs"), "has_shape"),
                "result": "has_result",
                **dict.fromkeys(spent.COLUMNS, "has_where"),
            },
            live=Live(
                by=("comm", "pid", "function", "nodes"),
                totals=("duration_ns", *spent.PARTS),
                ranked_by=("duration_ns",),
                quantiles=("duration_ns",),
                unless="nested",
                title="graphs by function and size",
            ),
            line=("tid", "duration_ns", "function", "nodes", "leafs", "result"),
            timeline=Timeline(slices=(Slices(named=("function", "nodes")),)),
            rollup=Rollup(by=("comm", "function"), measured="duration_ns", unless="nested"),
        ),
        Stream(
            "ggml_allocation",
            "one row per allocation that succeeded, and per free",
            columns={
                "function": Column("aligned_malloc, aligned_free, cuda_pool_alloc or cuda_pool_free"),
                "bytes": Column("size; absent for a free of memory that was allocated before recording", "bytes"),
                "address": Column("address of the memory", hex=True),
            },
            hidden=("has_bytes",),
            null_unless={"bytes": "has_bytes"},
            live=Live(by=("comm", "pid", "function"), totals=("bytes",), title="allocations and frees"),
            line=("tid", "function", "bytes", "address"),
            rollup=Rollup(by=("comm", "function"), measured="bytes"),
        ),
        Stream(
            "ggml_memory",
            "memory that processes have not freed, by kind",
            columns={
                "memory": _MEMORY,
                "live_bytes": Column("memory not freed yet", "bytes"),
                "live_count": Column("allocations not freed yet"),
                "peak_bytes": Column("highest live_bytes so far", "bytes"),
                "allocated_bytes": Column("sum of all allocations since recording began", "bytes"),
                "allocations": Column("all allocations since recording began"),
                "frees": Column("all frees since recording began"),
                "unknown_frees": Column("frees of memory that was allocated before recording began"),
                "ended": Column("1 in the last row of a process"),
            },
            mode=Mode.SUMMARY,
            live=Live(by=("comm", "pid", "memory"), totals=("live_count", "peak_bytes", "live_bytes")),
            timeline=Timeline(counters=(Counter("live_bytes", by=("memory",), zero_if="ended"),)),
            gauge=True,
            latest=Latest(
                key=("memory",),
                by=("comm", "memory"),
                totals=("live_bytes", "live_count", "allocations", "unknown_frees"),
                held=("live_count", "unknown_frees"),
                ended="ended",
            ),
        ),
    ),
    alternatives=(
        Alternative(
            "uprobe_multi: functions of ggml; tp_btf: sched_switch, sched_wakeup; software events",
            ("ggml_abandon", "ggml_replace"),
            uprobe_multi=True,
        ),
        Alternative(
            "uprobe: functions of ggml; tp_btf: sched_switch, sched_wakeup; software events",
            ("ggml_abandon", "ggml_replace"),
        ),
    ),
    hooks=lambda _: spent.HOOKS,
    places=_places,
    kept_by_process=("ggml_allocations",),
)
