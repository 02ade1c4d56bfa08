"""CUDA: calls to the runtime and the driver, and kernel launches with the kernels' names."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Stream, Summary
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.cuda import results
from scope_bpf.probes.cuda.categories import CATEGORIES
from scope_bpf.probes.cuda.functions import BY_ADDRESS, D2D, FUNCTIONS, RUNTIME
from scope_bpf.probes.cuda.guide import GUIDE
from scope_catalogue.options import Option
from scope_catalogue.shown import Counter, Flame, Flow, Latest, Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Quantiles, Rate, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_GPUS = Path("/proc/driver/nvidia/gpus")  # the driver makes a folder for each GPU
_WORD = pa.dictionary(pa.int32(), pa.string())

_NAMES = pa.array([function.name for function in FUNCTIONS])
_APIS = pa.array([function.api for function in FUNCTIONS])
_IS_RUNTIME = np.array([function.api == RUNTIME for function in FUNCTIONS])
_IS_COPY = np.array([function.kind in ("CUDA_COPY", "CUDA_COPY_2D", "CUDA_COPY_3D") for function in FUNCTIONS])
_BLOCKS = np.array([function.blocks for function in FUNCTIONS])
_WAITS = np.array([function.waits for function in FUNCTIONS])


@cache
def _memory_words() -> pa.Array:
    """Words indexed by the numbers of enum cuda_memory_kind; null for "no memory"."""
    names = enum_values(PROBE.btf, "cuda_memory_kind")
    return pa.array([name.removeprefix("CUDA_").lower() if name != "CUDA_NO_MEMORY" else None for name in names])


@cache
def _copy_words() -> pa.Array:
    """Words indexed by the numbers of enum copy_kind."""
    names = enum_values(PROBE.btf, "copy_kind")
    return pa.array([name.removeprefix("COPY_") if name != BY_ADDRESS else "default" for name in names])


def _result_names(rows: Rows) -> pa.Array:
    """The name of each result; null if CUDA's headers do not define the number."""
    keys = np.where(_IS_RUNTIME[rows["function_id"]], 0, 1 << 32) | rows["result"].astype(np.int64) & 0xFFFFFFFF
    present, places = np.unique(keys, return_inverse=True)
    names = [(results.RUNTIME, results.DRIVER)[key >> 32].get(key & 0xFFFFFFFF) for key in present.tolist()]
    returned = pa.array(places, mask=rows["returned"] == 0)
    return pa.array(names, pa.string()).take(returned).dictionary_encode().cast(_WORD)


def _described(rows: Rows) -> dict[str, pa.Array]:
    numbers = pa.array(rows["function_id"].astype(np.int32))
    return {
        "api": _APIS.take(numbers).dictionary_encode(),
        "function": _NAMES.take(numbers).dictionary_encode(),
    }


def _described_with_result(rows: Rows) -> dict[str, pa.Array]:
    return _described(rows) | {"result_name": _result_names(rows)}


def _derive_call(rows: Rows) -> dict[str, pa.Array]:
    copies, blocks = _IS_COPY[rows["function_id"]], _BLOCKS[rows["function_id"]]
    words = _copy_words()
    kinds = np.where(rows["copy_kind"] < len(words), rows["copy_kind"], 0).astype(np.int32)
    # Calls that copy from device to device return before the copy is done.
    blocks = blocks & (kinds != enum_values(PROBE.btf, "copy_kind")[D2D])
    measured = copies & blocks & (rows["returned"] == 1) & (rows["result"] == 0) & (rows["duration_ns"] > 0)
    seconds = np.where(measured, rows["duration_ns"], 1) / 1e9
    return _described_with_result(rows) | {
        "memory": _memory(rows),
        "is_async": pa.array(~blocks, mask=~copies),
        "wait_ns": pa.array(np.array(rows["duration_ns"]), mask=~_WAITS[rows["function_id"]]),
        "kind": words.take(pa.array(kinds, mask=~copies | (rows["copy_kind"] >= len(words)))).dictionary_encode(),
        "bandwidth": pa.array(rows["bytes"] / seconds, mask=~measured),
    }


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    only_device = len(list(_GPUS.glob("*"))) == 1
    return {"keep_stacks": options["stacks"], "only_device": only_device}


def _resolver(object_: "BpfObject", modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.probes.cuda.resolver import CudaResolver

    return CudaResolver(object_, modules)


def _memory(rows: Rows) -> pa.Array:
    """The kind of memory; null if the call handles none."""
    words = _memory_words()
    return words.take(pa.array(np.minimum(rows["memory_id"], len(words) - 1).astype(np.int32))).dictionary_encode()


def _derive_held(rows: Rows) -> dict[str, pa.Array]:
    return {
        "memory": _memory(rows),
        "device": pa.array(np.array(rows["device_id"]), mask=rows["device_id"] < 0),
    }


def _derive_live(rows: Rows) -> dict[str, pa.Array]:
    some = rows["live_count"] > 0
    since_ns = rows["start_ns"] + rows["since_us"] // np.maximum(rows["live_count"], 1) * np.uint64(1000)
    return _derive_held(rows) | {"mean_age_ns": pa.array(rows["ktime_ns"] - since_ns, mask=~some)}


_DEVICE = Column("number of the GPU that the thread selected; 0 if the host has only one GPU; absent if unknown")
_NESTED = Column("1 if called from inside another recorded call: do not add it to the outer call")
_DESCRIBED = {
    "api": Derived(Column("runtime or driver"), _WORD),
    "function": Derived(Column("name of the function"), _WORD),
}
_RESULT_NAME = {"result_name": Derived(Column("name of the result, such as cudaErrorMemoryAllocation"), _WORD)}
_KERNEL = {
    "kernel": Derived(Column("name of the kernel; module+offset or the handle if the name is unknown"), _WORD),
    "module": Derived(Column("file that contains the kernel's host function"), _WORD),
    "name_source": Derived(
        Column("source of the name: registration, symbol or driver; offset or handle if unknown"), _WORD
    ),
    "category": Derived(
        Column(
            "what the kernel computes, as its name says: "
            f"{', '.join(CATEGORIES[:-1])} or {CATEGORIES[-1]}; absent if the name is unknown"
        ),
        _WORD,
    ),
}
_STACK = {"stack": stacks.STACK}
_HELD = {
    "memory": Derived(Column("device, pinned or managed"), _WORD),
    "device": Derived(_DEVICE, pa.int32()),
}
_COMMON = {
    "duration_ns": Column("from entry to return", "ns"),
    "stream": Column("the CUDA stream's handle; 0: the default stream", hex=True, identity=True),
    "result": Column("returned value; 0: success; absent if the thread ended during the call"),
    "device": _DEVICE,
    "nested": _NESTED,
}
_TIMES = {
    "nested": _NESTED,
    "count": Column("calls that returned in the interval"),
    "errors": Column("calls that failed"),
    "total_ns": Column("sum of the calls' durations", "ns"),
    "latency": Column("histogram of durations, in powers of two", "ns"),
}
_LIVE_NOW = {
    "live_bytes": Column("memory not freed yet", "bytes"),
    "live_count": Column("allocations not freed yet"),
    "allocations": Column("all allocations since recording began"),
}
_ENDED = Column("1 in the last row of a process: the process has ended, and its memory is free")

_CALLS = Rollup(by=("comm", "function"), measured="duration_ns", where="nested = 0")
_SUMMED = replace(
    _CALLS,
    count="count",
    measured="total_ns",
    histogram="latency",
)
_FAILED, _SOME_FAILED = "result != 0", "errors > 0"
_STREAMS, _HELD_BY = ("device", "stream"), ("memory", "device")
_LAUNCHED = Flow("cuda_launch", ("tid", "ktime_ns"), begins=True, where="nested = 0")
_TO_KERNEL = Flow("cuda_launch", ("tid", "ktime_ns"))
_CALL = Stream(
    "cuda_call",
    "one row per finished call, timed at entry",
    columns=_COMMON
    | {
        "bytes": Column("memory allocated, freed, copied, set or mapped", "bytes"),
        "ptr": Column("address of the memory allocated, freed or set", hex=True, identity=True),
        "src": Column("source address of a copy", hex=True, identity=True),
        "dst": Column("destination address of a copy", hex=True, identity=True),
        "live_bytes": Column("the process's memory of this kind on this device, after the allocation or free", "bytes"),
    },
    made=Made(
        derived=_DESCRIBED
        | _RESULT_NAME
        | {
            "memory": Derived(Column("kind of memory allocated or freed: device, pinned or managed"), _WORD),
            "kind": Derived(Column("direction of a copy: H2H, H2D, D2H, D2D; default if unknown"), _WORD),
            "is_async": Derived(Column("for copies: true if the call returns before the copy is done"), pa.bool_()),
            "wait_ns": Derived(Column("duration of a call that waits for the device", "ns"), pa.uint64()),
            "bandwidth": Derived(
                Column("bandwidth of a copy whose call waits until the copy is done", "B/s"), pa.float64()
            ),
        },
        derive=_derive_call,
        resolved=_STACK,
    ),
    hidden=(
        *("function_id", "copy_kind", "stack_id", "has_bytes", "has_ptr", "has_src", "has_dst"),
        *("has_stream", "has_device", "has_live", "returned", "memory_id"),
    ),
    null_unless={
        **{name: f"has_{name}" for name in ("bytes", "ptr", "src", "dst", "stream", "device")},
        "live_bytes": "has_live",
        "result": "returned",
    },
    failed=_FAILED,
    shown=Shown(
        tables=(
            Table(
                ("comm", "function"),
                (Count(), Sum("bytes"), Sum("duration_ns"), Quantiles("duration_ns")),
                where="nested = 0",
                title="calls by function",
            ),
            Table(
                ("comm", "kind"),
                (
                    Count(),
                    Sum("duration_ns"),
                    Sum("bytes"),
                    Quantiles("duration_ns"),
                    Rate("bytes", "duration_ns", where="bandwidth is not null", name="bandwidth"),
                ),
                where="nested = 0 and kind is not null",
                title="copies by direction",
            ),
            Table(
                ("comm", "function"),
                (Count(), Sum("wait_ns"), Quantiles("wait_ns")),
                where="nested = 0 and wait_ns > 0",
                title="waits for the device",
            ),
            Table(("comm", "function", "result_name"), where="nested = 0 and result != 0", title="errors"),
        ),
        line=("duration_ns", "result_name", "kind", "bytes", "function"),
        timeline=Timeline(
            slices=(
                Slices(named=("function",), by_thread=""),
                Slices(named=("function", "kind"), on=_STREAMS, where="nested = 0"),
            ),
            # Memory is there when the call returns.
            counters=(Counter("live_bytes", by=_HELD_BY, after="duration_ns"),),
        ),
        flame=Flame(
            weight="bytes",
            below=("memory", "function"),
            where="result = 0 or result is null",
            title="memory allocated, by stack",
        ),
    ),
    rollup=replace(_CALLS, by=("comm", "function", "kind")),
)

_LAUNCH = Stream(
    "cuda_launch",
    "one row per finished launch call, timed at entry",
    columns=_COMMON
    | {
        "grid_x": Column("blocks in the grid, x"),
        "grid_y": Column("blocks in the grid, y"),
        "grid_z": Column("blocks in the grid, z"),
        "block_x": Column("threads in a block, x"),
        "block_y": Column("threads in a block, y"),
        "block_z": Column("threads in a block, z"),
        "shared_bytes": Column("dynamic shared memory per block", "bytes"),
        "arguments": Column("address of the array of pointers to the arguments", hex=True, identity=True),
        "handle": Column("launched kernel: address of its host function, or its handle", hex=True, identity=True),
        "offset": Column("offset of the kernel's host function in the module's file", hex=True, identity=True),
    },
    made=Made(derived=_DESCRIBED | _RESULT_NAME, derive=_described_with_result, resolved=_KERNEL | _STACK),
    hidden=("function_id", "inode", "name", "stack_id", "has_device", "returned"),
    null_unless={"device": "has_device", "offset": "inode", "result": "returned"},
    failed=_FAILED,
    shown=Shown(
        tables=(
            Table(
                ("comm", "kernel", "result_name"),
                (Count(), Sum("duration_ns"), Quantiles("duration_ns")),
                where="nested = 0",
                title="launches by kernel",
            ),
            Table(
                ("comm", "category"),
                (Count(), Sum("duration_ns"), Quantiles("duration_ns")),
                where="nested = 0",
                title="launches by what the kernels compute",
            ),
        ),
        line=(
            *("duration_ns", "result_name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
            *("shared_bytes", "kernel"),
        ),
        timeline=Timeline(
            slices=(
                Slices(named=("function",), by_thread="", flow=_LAUNCHED),
                Slices(named=("kernel",), on=_STREAMS, where="nested = 0", flow=_TO_KERNEL),
            ),
        ),
        flame=Flame(below=("kernel",), where="nested = 0", title="launches, by stack"),
    ),
    rollup=replace(_CALLS, by=("comm", "kernel")),
)

_CALL_SUMMARY = Stream(
    "cuda_call_summary",
    "counts and durations of calls, by process and function",
    columns=_TIMES | {"bytes": Column("memory allocated, freed, copied, set or mapped, without failed calls", "bytes")},
    summary=Summary(),
    made=Made(derived=_DESCRIBED, derive=_described),
    hidden=("function_id",),
    shown=Shown(
        tables=(
            Table(
                ("comm", "function"),
                (Sum("count"), Sum("errors"), Sum("bytes"), Sum("total_ns"), Quantiles("latency")),
                where="nested = 0",
            ),
        )
    ),
    failed=_SOME_FAILED,
    rollup=_SUMMED,
)

_LAUNCH_SUMMARY = Stream(
    "cuda_launch_summary",
    "counts and durations of launches, by process and kernel",
    columns=_TIMES,
    summary=Summary(),
    made=Made(derived=_DESCRIBED, derive=_described, resolved=_KERNEL),
    hidden=("function_id", "inode", "offset", "name", "handle"),
    shown=Shown(
        tables=(
            Table(
                ("comm", "kernel"),
                (Sum("count"), Sum("errors"), Sum("total_ns"), Quantiles("latency")),
                where="nested = 0",
            ),
        )
    ),
    failed=_SOME_FAILED,
    rollup=replace(_SUMMED, by=("comm", "kernel")),
)

_MEMORY_HELD = Stream(
    "cuda_memory",
    "memory that processes have not freed, by device and kind of memory",
    columns=_LIVE_NOW
    | {
        "peak_bytes": Column("highest live_bytes so far", "bytes"),
        "allocated_bytes": Column("sum of all allocations since recording began", "bytes"),
        "frees": Column("all frees since recording began"),
        "unknown_frees": Column("frees of memory that was allocated before recording began"),
        "implicit_frees": Column("frees without a recorded call, such as by the end of a context or program"),
        "ended": _ENDED,
    },
    summary=Summary(gauge=True),
    made=Made(derived=_HELD, derive=_derive_held),
    hidden=("device_id", "memory_id"),
    shown=Shown(
        tables=(Table(("comm", "pid", "device", "memory"), (Sum("live_count"), Sum("peak_bytes"), Sum("live_bytes"))),),
        timeline=Timeline(counters=(Counter("live_bytes", by=_HELD_BY, zero_where="ended != 0"),)),
    ),
    latest=Latest(
        key=_HELD_BY,
        by=("comm", *_HELD_BY),
        totals=("live_bytes", "live_count", "allocations", "unknown_frees"),
        held=("live_count", "unknown_frees"),  # unknown frees: the process may have more such memory
        ended="ended",
    ),
)

_MEAN_AGE = Derived(Column("mean age of the allocations not freed yet", "ns"), pa.uint64())
_LIVE = Stream(
    "cuda_live",
    "memory not freed yet, by the stack that allocated it",
    columns=_LIVE_NOW
    | {
        "stack_id": Column(
            "tells apart stacks with equal text: they differ in a line of the same function", hex=True, identity=True
        ),
        "ended": _ENDED,
    },
    summary=Summary(gauge=True),
    made=Made(
        derived=_HELD | {"mean_age_ns": _MEAN_AGE},
        derive=_derive_live,
        resolved=_STACK,
    ),
    hidden=("device_id", "memory_id", "since_us"),
    shown=Shown(
        tables=(Table(("comm", "pid", "memory", "stack"), (Sum("live_count"), Sum("mean_age_ns"), Sum("live_bytes"))),),
        flame=Flame(weight="live_bytes", below=("memory",), title="memory not freed yet, by stack"),
    ),
    latest=Latest(
        key=(*_HELD_BY, "stack_id"),
        by=("comm", *_HELD_BY, "stack"),
        totals=("live_bytes", "live_count", "allocations"),
        means={"mean_age_ns": "live_count"},
        held=("live_count",),
        ended="ended",
    ),
)

_ENDS = ("cuda_abandon", "cuda_replace")

PROBE = Probe(
    name="cuda",
    meaning="CUDA: runtime and driver calls, launches with kernel names, unfreed memory by the code that allocated it",
    streams=(_LAUNCH, _CALL, _LAUNCH_SUMMARY, _CALL_SUMMARY, _MEMORY_HELD, _LIVE),
    ring_bytes=8 << 20,
    alternatives=(
        Alternative("uprobe_multi: functions in libcudart and libcuda", _ENDS, uprobe_multi=True),
        Alternative("uprobe: functions in libcudart and libcuda", _ENDS),
    ),
    extra_options=(Option("stacks", "boolean", True, "record the call stacks of launches and allocations"),),
    constants=_constants,
    kept_by_process=("cuda_allocations", "cuda_chunks", "cuda_names", *stacks.MAPS),
    hooks=lambda options: stacks.HOOKS if options["stacks"] else Hooks(),
    places=lambda _: tuple(function.place for function in FUNCTIONS),
    libraries=("libcuda.so", "libcudart.so"),
    resolver=_resolver,
    guide=GUIDE,
)
