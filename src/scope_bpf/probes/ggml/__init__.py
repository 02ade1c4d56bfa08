"""ggml, the tensor library of llama.cpp, whisper.cpp and others: graphs, operations on GPUs, and unfreed memory.

`functions` has the recorded functions by version, `tensors` what a build says of its tensors; `resolver` reads the
results of operations with it, and `replays` tells of processes that only repeat CUDA graphs.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from scope_bpf.catalogue import spent, stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Derived, Made, Stream, Summary
from scope_bpf.probes.ggml.functions import places
from scope_bpf.probes.ggml.guide import GUIDE
from scope_catalogue.options import Option
from scope_catalogue.shown import Counter, Flame, Latest, Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Quantiles, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.catalogue.place import Place
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_WORD = pa.dictionary(pa.int32(), pa.string())


def _hooks(options: Mapping[str, Any]) -> Hooks:
    return spent.HOOKS + (stacks.UNWOUND_HOOKS if options["stacks"] else Hooks())


def _resolver(object_: "BpfObject", modules: "Modules", _places: "Sequence[Place]") -> "Resolver":
    from scope_bpf.probes.ggml.resolver import GgmlResolver

    return GgmlResolver(object_, modules)


_ALL_OF = "absent, like all columns about the result, if the layout of ggml's tensors is unknown, which a note tells"
_TENSOR = {
    "op": Derived(Column(f"operation of the result, such as MUL_MAT; {_ALL_OF}"), _WORD),
    "data_type": Derived(Column("type of the result's elements, such as f32"), _WORD),
    "tensor": Derived(Column("name of the result, such as Qcur-0; absent if it has none"), _WORD),
    **{
        f"ne{number}": Derived(Column(f"elements of the result in dimension {number}"), pa.int64())
        for number in range(4)
    },
}
_ATTACHED = "functions of ggml, launches of CUDA graphs; tp_btf: sched_switch, sched_wakeup; software events"
_MEMORY = Column("host: ggml_aligned_malloc; pool: parts of the pools that ggml keeps on GPUs")

PROBE = Probe(
    name="ggml",
    meaning="ggml, the library below llama.cpp and whisper.cpp: graphs, operations on GPUs, and unfreed memory",
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
            hidden=("has_shape", "has_result"),
            null_unless={
                **dict.fromkeys(("nodes", "leafs"), "has_shape"),
                "result": "has_result",
            },
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "function", "nodes"),
                        (Count(), Sum("duration_ns"), *map(Sum, spent.PARTS), Quantiles("duration_ns")),
                        ranked_by=("duration_ns",),
                        where="nested = 0",
                        title="graphs by function and size",
                    ),
                ),
                line=("tid", "duration_ns", "function", "nodes", "leafs", "result"),
                timeline=Timeline(slices=(Slices(named=("function", "nodes"), by_thread=""),)),
            ),
            rollup=Rollup(by=("comm", "function"), measured="duration_ns", where="nested = 0"),
        ),
        Stream(
            "ggml_operation",
            "one row per finished call of a function of ggml's CUDA backend, timed at entry; a CUDA graph repeats "
            "operations without such calls, and has one row per launch",
            columns={
                "duration_ns": Column("from entry to return; the GPU may go on computing after it", "ns"),
                "function": Column("name of the function without ggml_; cuda_graph_launch: a launch of a CUDA graph"),
                "device": Column("number of the GPU; only of cuda_set_device"),
                "returned": Column("1; 0 if the thread ended during the call"),
                "nested": Column("1 if called from inside another recorded operation: do not add it to the outer call"),
            },
            made=Made(resolved=_TENSOR),
            hidden=("size0", "size1", "size2", "size3", "op_id", "type_id", "names", "has_tensor", "has_device"),
            null_unless={"device": "has_device"},
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "function", "op"),
                        (Count(), Sum("duration_ns"), Quantiles("duration_ns")),
                        where="nested = 0",
                        title="operations on GPUs by function",
                    ),
                    Table(
                        ("comm", "op", "data_type", "ne0", "ne1", "ne2", "ne3"),
                        (Count(), Sum("duration_ns"), Quantiles("duration_ns")),
                        where="nested = 0 and op is not null",
                        title="operations on GPUs by shape of the result",
                    ),
                ),
                line=("tid", "duration_ns", "function", "op", "data_type", "ne0", "ne1", "ne2", "ne3", "tensor"),
                timeline=Timeline(slices=(Slices(named=("function", "tensor"), by_thread=""),)),
            ),
            rollup=Rollup(by=("comm", "function"), measured="duration_ns", where="nested = 0"),
        ),
        Stream(
            "ggml_allocation",
            "one row per allocation that succeeded, and per free",
            columns={
                "function": Column("aligned_malloc, aligned_free, cuda_pool_alloc or cuda_pool_free"),
                "bytes": Column("size; absent for a free of memory that was allocated before recording", "bytes"),
                "address": Column("address of the memory", hex=True, identity=True),
            },
            made=Made(resolved={"stack": stacks.STACK}),
            hidden=("stack_id", "has_bytes"),
            null_unless={"bytes": "has_bytes"},
            shown=Shown(
                tables=(Table(("comm", "pid", "function"), (Count(), Sum("bytes")), title="allocations and frees"),),
                line=("tid", "function", "bytes", "address"),
                flame=Flame(weight="bytes", below=("function",), title="memory allocated, by stack"),
            ),
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
            summary=Summary(gauge=True),
            shown=Shown(
                tables=(Table(("comm", "pid", "memory"), (Sum("live_count"), Sum("peak_bytes"), Sum("live_bytes"))),),
                timeline=Timeline(counters=(Counter("live_bytes", by=("memory",), zero_where="ended != 0"),)),
            ),
            latest=Latest(
                key=("memory",),
                by=("comm", "memory"),
                totals=("live_bytes", "live_count", "allocations", "unknown_frees"),
                held=("live_count", "unknown_frees"),
                ended="ended",
            ),
        ),
        Stream(
            "ggml_live",
            "with the option stacks: memory not freed yet, by the stack that allocated it",
            columns={
                "memory": _MEMORY,
                "live_bytes": Column("memory not freed yet", "bytes"),
                "live_count": Column("allocations not freed yet"),
                "allocations": Column("all allocations since recording began"),
                "stack_id": Column(
                    "tells apart stacks with equal text: they differ in a line of the same function",
                    hex=True,
                    identity=True,
                ),
                "ended": Column("1 in the last row of a process"),
            },
            summary=Summary(gauge=True),
            made=Made(resolved={"stack": stacks.STACK}),
            shown=Shown(
                tables=(Table(("comm", "pid", "memory", "stack"), (Sum("live_count"), Sum("live_bytes"))),),
                flame=Flame(weight="live_bytes", below=("memory",), title="memory not freed yet, by stack"),
            ),
            latest=Latest(
                key=("memory", "stack_id"),
                by=("comm", "memory", "stack"),
                totals=("live_bytes", "live_count", "allocations"),
                held=("live_count",),
                ended="ended",
            ),
        ),
    ),
    alternatives=(
        Alternative(
            f"uprobe_multi: {_ATTACHED}",
            ("ggml_abandon", "ggml_replace"),
            uprobe_multi=True,
        ),
        Alternative(
            f"uprobe: {_ATTACHED}",
            ("ggml_abandon", "ggml_replace"),
        ),
    ),
    extra_options=(Option("stacks", "boolean", False, "record the call stacks of allocations"),),
    constants=lambda options: {"keep_stacks": options["stacks"]},
    hooks=_hooks,
    places=places,
    kept_by_process=("ggml_allocations", "ggml_replays", *stacks.MAPS),
    resolver=_resolver,
    guide=GUIDE,
)
