"""CUDA: calls of the runtime and the driver, and launches with the names of their kernels."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.options import Option
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Counter, Failed, Latest, Live, Rollup, Slices, Timeline
from scope_bpf.catalogue.stream import Column, Derived, Mode, Rows, Stream
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.cuda import results
from scope_bpf.probes.cuda.functions import BY_ADDRESS, D2D, FUNCTIONS, RUNTIME

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_GPUS = Path("/proc/driver/nvidia/gpus")  # a folder for each, made by the driver
_WORD = pa.dictionary(pa.int32(), pa.string())

_NAMES = pa.array([function.name for function in FUNCTIONS])
_APIS = pa.array([function.api for function in FUNCTIONS])
_IS_RUNTIME = np.array([function.api == RUNTIME for function in FUNCTIONS])
_IS_COPY = np.array([function.kind in ("CUDA_COPY", "CUDA_COPY_2D", "CUDA_COPY_3D") for function in FUNCTIONS])
_BLOCKS = np.array([function.blocks for function in FUNCTIONS])
_WAITS = np.array([function.waits for function in FUNCTIONS])


@cache
def _memory_words() -> pa.Array:
    """By number, as enum cuda_memory_kind has it; absent for none."""
    names = enum_values(PROBE.btf, "cuda_memory_kind")
    return pa.array([name.removeprefix("CUDA_").lower() if name != "CUDA_NO_MEMORY" else None for name in names])


@cache
def _copy_words() -> pa.Array:
    """By number, as enum copy_kind has it."""
    names = enum_values(PROBE.btf, "copy_kind")
    return pa.array([name.removeprefix("COPY_") if name != BY_ADDRESS else "default" for name in names])


def _result_names(rows: Rows) -> pa.Array:
    """By API and number; absent for a number that the headers do not have."""
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
    # A copy within a device, or to another, is not waited for.
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


def _resolver(object_: "BpfObject", modules: "Modules") -> "Resolver":
    from scope_bpf.probes.cuda.resolver import CudaResolver

    return CudaResolver(object_, modules)


def _memory(rows: Rows) -> pa.Array:
    """Absent where it is none."""
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


_DEVICE = Column("what the thread has chosen since it was watched; else 0 if the host has one only, or absent")
_NESTED = Column("1 if made inside another call in these streams, and not to be counted beside it")
_DESCRIBED = {
    "api": Derived(Column("runtime or driver"), _WORD),
    "function": Derived(Column("its name"), _WORD),
}
_RESULT_NAME = {"result_name": Derived(Column("the result's name, such as cudaErrorMemoryAllocation"), _WORD)}
_KERNEL = {
    "kernel": Derived(Column("its name; module+offset or the handle where it cannot be known"), _WORD),
    "module": Derived(Column("the file that the kernel's host function is in"), _WORD),
    "name_source": Derived(
        Column("what gave the name: registration, symbol, driver; offset or handle if nothing did"), _WORD
    ),
}
_STACK = {
    "stack": Derived(
        Column(
            "who called, outermost first, by frame pointers; [cut] first if there were more; absent if not kept",
            stack=True,
        ),
        _WORD,
    )
}
_HELD = {
    "memory": Derived(Column("device, pinned or managed"), _WORD),
    "device": Derived(_DEVICE, pa.int32()),
}
_COMMON = {
    "duration_ns": Column("from entry to return", "ns"),
    "stream": Column("the CUDA stream, as the program has it; 0 is the default one", hex=True),
    "result": Column("what it returned; 0 for success; absent if its thread ended in it"),
    "device": _DEVICE,
    "nested": _NESTED,
}
_TIMES = {
    "nested": _NESTED,
    "count": Column("calls that returned in the interval"),
    "errors": Column("those that failed"),
    "total_ns": Column("their durations, added up", "ns"),
    "latency": Column("their durations by powers of two", "ns"),
}
_LIVE_NOW = {
    "live_bytes": Column("allocated and not freed", "bytes"),
    "live_count": Column("allocations that are not freed"),
    "allocations": Column("ever"),
}
_ENDED = Column("1 in the last row of a process: it has ended, and what was live is free")

_CALLS = Rollup(
    by=("comm", "function"),
    measured="duration_ns",
    failed="result",
    failed_if=Failed.NOT_ZERO,
    unless="nested",
)
_SUMMED = replace(
    _CALLS,
    count="count",
    measured="total_ns",
    histogram="latency",
    failed="errors",
    failed_if=Failed.COUNTED,
)
_STREAMS, _HELD_BY = ("device", "stream"), ("memory", "device")

_CALL = Stream(
    "cuda_call",
    "a call, when it returns; its time is the entry's",
    columns=_COMMON
    | {
        "bytes": Column("memory allocated, freed, copied, set or mapped", "bytes"),
        "ptr": Column("memory that was allocated, freed or set", hex=True),
        "src": Column("what is copied", hex=True),
        "dst": Column("where it is copied to", hex=True),
        "live_bytes": Column("of this kind of memory on this device, after an allocation or a free", "bytes"),
    },
    derived=_DESCRIBED
    | _RESULT_NAME
    | {
        "memory": Derived(Column("what is allocated or freed: device, pinned or managed"), _WORD),
        "kind": Derived(Column("of a copy: H2H, H2D, D2H, D2D; default where the addresses do not tell"), _WORD),
        "is_async": Derived(Column("of a copy: it returns before what it does is done"), pa.bool_()),
        "wait_ns": Derived(Column("of a call that waits for the device: its duration", "ns"), pa.uint64()),
        "bandwidth": Derived(Column("of a copy that blocks until it is done", "B/s"), pa.float64()),
    },
    derive=_derive_call,
    resolved=_STACK,
    hidden=(
        *("function_id", "copy_kind", "stack_id", "has_bytes", "has_ptr", "has_src", "has_dst"),
        *("has_stream", "has_device", "has_live", "returned", "memory_id"),
    ),
    null_unless={
        **{name: f"has_{name}" for name in ("bytes", "ptr", "src", "dst", "stream", "device")},
        "live_bytes": "has_live",
        "result": "returned",
    },
    live=Live(
        by=("comm", "function"),
        totals=("bytes", "duration_ns"),
        quantiles=("duration_ns",),
        unless="nested",
        failed="result",
    ),
    also_live=(
        Live(
            title="copies by direction",
            by=("comm", "kind"),
            totals=("duration_ns", "bytes"),
            unless="nested",
            only="kind",
            failed="result",
            rate="bandwidth",
        ),
        Live(
            title="waits for the device",
            by=("comm", "function"),
            totals=("wait_ns",),
            quantiles=("wait_ns",),
            unless="nested",
            only="wait_ns",
        ),
        Live(title="errors", by=("comm", "function", "result_name"), unless="nested", only="result"),
    ),
    line=("duration_ns", "result_name", "kind", "bytes", "function"),
    timeline=Timeline(
        slices=(Slices(named=("function",)), Slices(named=("function", "kind"), on=_STREAMS, unless="nested")),
        counters=(Counter("live_bytes", by=_HELD_BY, after="duration_ns"),),  # memory is there when the call returns
    ),
    rollup=replace(_CALLS, by=("comm", "function", "kind")),
)

_LAUNCH = Stream(
    "cuda_launch",
    "a launch of a kernel, when the call returns; its time is the entry's",
    columns=_COMMON
    | {
        "grid_x": Column("blocks"),
        "grid_y": Column("blocks"),
        "grid_z": Column("blocks"),
        "block_x": Column("threads of a block"),
        "block_y": Column("threads of a block"),
        "block_z": Column("threads of a block"),
        "shared_bytes": Column("dynamic shared memory of a block", "bytes"),
        "arguments": Column("where the pointers to the arguments are", hex=True),
        "handle": Column("what was launched: the host function's address, or a handle", hex=True),
        "offset": Column("of the kernel's host function in the module's file", hex=True),
    },
    derived=_DESCRIBED | _RESULT_NAME,
    derive=_described_with_result,
    resolved=_KERNEL | _STACK,
    hidden=("function_id", "inode", "name", "stack_id", "has_device", "returned"),
    null_unless={"device": "has_device", "offset": "inode", "result": "returned"},
    live=Live(
        by=("comm", "kernel", "result_name"), totals=("duration_ns",), quantiles=("duration_ns",), unless="nested"
    ),
    line=(
        *("duration_ns", "result_name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
        *("shared_bytes", "kernel"),
    ),
    timeline=Timeline(
        slices=(Slices(named=("function",)), Slices(named=("kernel",), on=_STREAMS, unless="nested")),
    ),
    rollup=replace(_CALLS, by=("comm", "kernel")),
)

_CALL_SUMMARY = Stream(
    "cuda_call_summary",
    "calls by process and function",
    columns=_TIMES | {"bytes": Column("memory allocated, freed, copied, set or mapped, without failures", "bytes")},
    mode=Mode.SUMMARY,
    derived=_DESCRIBED,
    derive=_described,
    hidden=("function_id",),
    live=Live(
        by=("comm", "function"),
        totals=("count", "errors", "bytes", "total_ns"),
        quantiles=("latency",),
        unless="nested",
    ),
    rollup=_SUMMED,
)

_LAUNCH_SUMMARY = Stream(
    "cuda_launch_summary",
    "launches by process and kernel",
    columns=_TIMES,
    mode=Mode.SUMMARY,
    derived=_DESCRIBED,
    derive=_described,
    resolved=_KERNEL,
    hidden=("function_id", "inode", "offset", "name", "handle"),
    live=Live(by=("comm", "kernel"), totals=("count", "errors", "total_ns"), quantiles=("latency",), unless="nested"),
    rollup=replace(_SUMMED, by=("comm", "kernel")),
)

_MEMORY_HELD = Stream(
    "cuda_memory",
    "what processes hold, by device and kind of memory",
    columns=_LIVE_NOW
    | {
        "peak_bytes": Column("the most that was live", "bytes"),
        "allocated_bytes": Column("allocated ever", "bytes"),
        "frees": Column("ever"),
        "unknown_frees": Column("of what was allocated before the process was watched"),
        "implicit_frees": Column("with a context, with the program, or otherwise than by a call that is seen"),
        "ended": _ENDED,
    },
    mode=Mode.SUMMARY,
    derived=_HELD,
    derive=_derive_held,
    hidden=("device_id", "memory_id"),
    live=Live(by=("comm", "pid", "device", "memory"), totals=("live_count", "peak_bytes", "live_bytes")),
    timeline=Timeline(counters=(Counter("live_bytes", by=_HELD_BY, zero_if="ended"),)),
    gauge=True,
    latest=Latest(
        key=_HELD_BY,
        by=("comm", *_HELD_BY),
        totals=("live_bytes", "live_count", "allocations", "unknown_frees"),
        held=("live_count", "unknown_frees"),  # who frees what nobody saw it allocate may hold more of it
        ended="ended",
    ),
)

_LIVE = Stream(
    "cuda_live",
    "allocations that are not freed, by the stack that made them",
    columns=_LIVE_NOW
    | {
        "stack_id": Column("tells stacks apart that look alike: another line of the same function", hex=True),
        "ended": _ENDED,
    },
    mode=Mode.SUMMARY,
    derived=_HELD | {"mean_age_ns": Derived(Column("of those that live", "ns"), pa.uint64())},
    derive=_derive_live,
    resolved=_STACK,
    hidden=("device_id", "memory_id", "since_us"),
    live=Live(
        by=("comm", "pid", "memory", "stack"),
        totals=("live_count", "mean_age_ns", "live_bytes"),
        told_apart=("device", "stack_id"),
    ),
    gauge=True,
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
    meaning="CUDA: calls of runtime and driver, launches with their kernels' names, memory held and by whom",
    streams=(_LAUNCH, _CALL, _LAUNCH_SUMMARY, _CALL_SUMMARY, _MEMORY_HELD, _LIVE),
    ring_bytes=8 << 20,
    alternatives=(
        Alternative("uprobe_multi: functions of libcudart and libcuda", _ENDS, uprobe_multi=True),
        Alternative("uprobe: functions of libcudart and libcuda", _ENDS),
    ),
    extra_options=(Option("stacks", "boolean", True, "keep the stacks of launches and allocations"),),
    constants=_constants,
    kept_by_process=("cuda_allocations", "cuda_chunks", "cuda_names", "scope_stacks"),
    places=lambda _: tuple(function.place for function in FUNCTIONS),
    libraries=("libcuda.so", "libcudart.so"),
    resolver=_resolver,
)
