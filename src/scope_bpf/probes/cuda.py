"""CUDA: calls of the runtime and the driver, and launches with the names of their kernels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.btf import Struct
from scope_bpf.catalogue import Alternative, Column, Derived, Function, Live, Probe, Resolver, Rows, Stream
from scope_bpf.cuda import results
from scope_bpf.cuda.functions import FUNCTIONS, RUNTIME, Copy, Kind, descriptors
from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout import layout_of

if TYPE_CHECKING:
    from scope_bpf.object import BpfObject

_MOST_FUNCTIONS = 128  # CUDA_FUNCTIONS in cuda.bpf.c
_WORD = pa.dictionary(pa.int32(), pa.string())

_NAMES = pa.array([function.name for function in FUNCTIONS])
_APIS = pa.array([function.api for function in FUNCTIONS])
_IS_RUNTIME = np.array([function.api == RUNTIME for function in FUNCTIONS])
_IS_COPY = np.array([function.kind is Kind.COPY for function in FUNCTIONS])
_BLOCKS = np.array([function.blocks for function in FUNCTIONS])
_COPIES = pa.array([kind.name if kind is not Copy.DEFAULT else "default" for kind in Copy])


def _result_names(rows: Rows) -> pa.Array:
    """By API and number; absent for a number that the headers do not have."""
    keys = np.where(_IS_RUNTIME[rows["function_id"]], 0, 1 << 32) | rows["result"].astype(np.int64) & 0xFFFFFFFF
    present, places = np.unique(keys, return_inverse=True)
    names = [(results.RUNTIME, results.DRIVER)[key >> 32].get(key & 0xFFFFFFFF) for key in present.tolist()]
    return pa.array(names, pa.string()).take(pa.array(places)).dictionary_encode().cast(_WORD)


def _described(rows: Rows) -> dict[str, pa.Array]:
    numbers = pa.array(rows["function_id"].astype(np.int32))
    return {
        "api": _APIS.take(numbers).dictionary_encode(),
        "function": _NAMES.take(numbers).dictionary_encode(),
        "result_name": _result_names(rows),
    }


def _derive_call(rows: Rows) -> dict[str, pa.Array]:
    copies, blocks = _IS_COPY[rows["function_id"]], _BLOCKS[rows["function_id"]]
    kinds = np.where(rows["copy_kind"] < len(_COPIES), rows["copy_kind"], 0).astype(np.int32)
    measured = copies & blocks & (rows["result"] == 0) & (rows["duration_ns"] > 0)
    seconds = np.where(measured, rows["duration_ns"], 1) / 1e9
    return _described(rows) | {
        "kind": _COPIES.take(pa.array(kinds, mask=~copies | (rows["copy_kind"] >= len(_COPIES)))).dictionary_encode(),
        "bandwidth": pa.array(rows["bytes"] / seconds, mask=~measured),
    }


def _constants(_: Mapping[str, Any]) -> Mapping[str, Any]:
    struct = PROBE.btf.struct("cuda_function")
    if not isinstance(struct, Struct):
        raise LayoutMismatch("the object has no struct cuda_function")
    return {"cuda_functions": descriptors(layout_of(struct).dtype, _MOST_FUNCTIONS)}


def _resolver(object_: "BpfObject") -> Resolver:
    from scope_bpf.cuda.kernel_names import KernelNames  # noqa: PLC0415  (needs the extension)

    return KernelNames(object_)


_DESCRIBED = {
    "api": Derived(Column("runtime or driver"), _WORD),
    "function": Derived(Column("its name"), _WORD),
    "result_name": Derived(
        Column("the result's name: cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY, ..."), _WORD
    ),
}
_COMMON = {
    "duration_ns": Column("from entry to return", "ns"),
    "stream": Column("the CUDA stream, as the program has it", hex=True),
    "result": Column("what it returned; 0 for success"),
    "device": Column("what the thread chose last; absent if it chose before it was watched"),
    "nested": Column("1 if it was made inside another call in these streams, and is not to be counted beside it"),
}

PROBE = Probe(
    name="cuda",
    meaning="CUDA: calls of runtime and driver, and launches with their kernels' names",
    streams=(
        Stream(
            "cuda_call",
            "a call, when it returns; its time is the entry's",
            columns=_COMMON
            | {
                "bytes": Column("memory allocated, copied, set or mapped", "bytes"),
                "ptr": Column("memory that was allocated, freed or set", hex=True),
                "src": Column("what is copied", hex=True),
                "dst": Column("where it is copied to", hex=True),
            },
            derived=_DESCRIBED
            | {
                "kind": Derived(Column("of a copy: H2H, H2D, D2H, D2D, default (by the addresses)"), _WORD),
                "bandwidth": Derived(Column("of a copy that blocks until it is done", "B/s"), pa.float64()),
            },
            derive=_derive_call,
            hidden=(
                *("function_id", "copy_kind", "has_bytes", "has_ptr", "has_src", "has_dst"),
                *("has_stream", "has_device"),
            ),
            null_unless={name: f"has_{name}" for name in ("bytes", "ptr", "src", "dst", "stream", "device")},
            live=Live(by=("comm", "function", "kind", "result_name"), totals=("bytes", "duration_ns")),
        ),
        Stream(
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
            derived=_DESCRIBED,
            derive=_described,
            resolved={
                "kernel": Derived(
                    Column("its name; module+offset or the handle where it cannot be known"),
                    _WORD,
                ),
                "module": Derived(Column("the file that the kernel's host function is in"), _WORD),
                "name_source": Derived(
                    Column("what gave the name: registration, symbol, driver; offset or handle if nothing did"), _WORD
                ),
            },
            hidden=("function_id", "inode", "name", "has_device"),
            null_unless={"device": "has_device", "offset": "inode"},
            live=Live(by=("comm", "kernel", "result_name"), totals=("duration_ns",)),
        ),
    ),
    ring_bytes=8 << 20,
    alternatives=(
        Alternative("uprobe_multi: functions of libcudart and libcuda", uprobe_multi=True),
        Alternative("uprobe: functions of libcudart and libcuda"),
    ),
    constants=_constants,
    functions=tuple(
        Function(function.symbols, number, "cuda_enter", "cuda_return") for number, function in enumerate(FUNCTIONS)
    ),
    resolver=_resolver,
)
