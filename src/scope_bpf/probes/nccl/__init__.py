"""NCCL, with which GPUs exchange data: collectives and point-to-point, by communicator and rank."""

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Stream, Summary
from scope_bpf.probes.nccl.functions import FUNCTIONS, RESULTS
from scope_bpf.probes.nccl.guide import GUIDE
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Quantiles, Sum, Table

_WORD = pa.dictionary(pa.int32(), pa.string())
_NAMES = pa.array([function.name for function in FUNCTIONS])
_RESULTS = pa.array(RESULTS)

_FAILED = "result != 0 and result != 7"  # ncclInProgress
_ATTACHED = "functions of libnccl, waits of CUDA; tp_btf: sched_process_exit, sched_process_exec"


def _derive_name(rows: Rows) -> dict[str, pa.Array]:
    return {"function": _NAMES.take(pa.array(rows["function_id"].astype(np.int32))).dictionary_encode()}


def _derive_call(rows: Rows) -> dict[str, pa.Array]:
    known = (rows["returned"] == 1) & (rows["result"] >= 0) & (rows["result"] < len(RESULTS))
    numbers = pa.array(np.where(known, rows["result"], 0).astype(np.int32), mask=~known)
    return _derive_name(rows) | {"result_name": _RESULTS.take(numbers).dictionary_encode()}


_FUNCTION = Derived(Column("name of the function"), _WORD)
_COMMUNICATOR = Column(
    "the communicator, the same for all its ranks on all machines: a hash; absent if its making was not recorded",
    hex=True,
    identity=True,
)
_RANK = Column("rank of the communicator that calls; absent if unknown")

_CALL = Stream(
    "nccl_call",
    "one row per finished call, timed at entry",
    columns={
        "duration_ns": Column("from entry to return; the GPU goes on after it", "ns"),
        "bytes": Column("elements times their size, by the call's count: of one rank, if ranks have parts", "bytes"),
        "dtype": Column("type of the elements, such as bfloat16"),
        "op": Column("operator of a reduction: sum, prod, max, min, avg; custom: made by the program"),
        "root": Column("root of a collective that has one"),
        "peer": Column("rank that is sent to, or received from"),
        "handle": Column("the process's handle of the communicator", hex=True, identity=True),
        "communicator": _COMMUNICATOR,
        "rank": _RANK,
        "nranks": Column("ranks of the communicator"),
        "sequence": Column(
            "number of the collective in its communicator, from 0: ranks' rows with the same number are one collective"
        ),
        "late_ns": Column(
            "of a collective: how much later this rank called it than the first on this machine; absent if that one "
            "called it so long ago that its time is forgotten",
            "ns",
        ),
        "stream": Column("the CUDA stream's handle; 0: the default stream", hex=True, identity=True),
        "result": Column("returned value; 0: success; absent if the thread ended during the call"),
        "in_group": Column("1 between ncclGroupStart and ncclGroupEnd: the latter waits for what this call would"),
        "nested": Column("1 if called from inside another recorded call: do not add it to the outer call"),
    },
    made=Made(
        derived={
            "function": _FUNCTION,
            "result_name": Derived(Column("name of the result, such as ncclInvalidArgument"), _WORD),
        },
        derive=_derive_call,
    ),
    hidden=(
        *("function_id", "has_bytes", "has_dtype", "has_op", "has_root", "has_peer", "has_handle"),
        *("has_communicator", "has_rank", "has_sequence", "has_late", "has_stream", "returned"),
    ),
    null_unless={
        **{name: f"has_{name}" for name in ("bytes", "dtype", "op", "root", "peer", "handle", "rank", "stream")},
        "communicator": "has_communicator",
        "nranks": "has_rank",
        "sequence": "has_sequence",
        "late_ns": "has_late",
        "result": "returned",
    },
    failed=_FAILED,
    shown=Shown(
        tables=(
            Table(
                ("comm", "function", "dtype"),
                (Count(), Sum("bytes"), Sum("duration_ns"), Quantiles("duration_ns")),
                where="nested = 0",
                title="calls by function",
            ),
            Table(
                ("comm", "pid", "communicator", "rank"),
                (Count(), Quantiles("late_ns"), Sum("duration_ns"), Sum("late_ns")),
                where="late_ns is not null",
                title="collectives by rank: late after the first rank on the machine",
            ),
            Table(("comm", "function", "result_name"), where=f"nested = 0 and {_FAILED}", title="errors"),
        ),
        line=("duration_ns", "result_name", "rank", "nranks", "bytes", "dtype", "function"),
        timeline=Timeline(slices=(Slices(named=("function",), by_thread=""),)),
    ),
    rollup=Rollup(by=("comm", "function"), measured="duration_ns", where="nested = 0"),
)

_SUMMARY = Stream(
    "nccl_call_summary",
    "counts, bytes and durations of calls and of waits for streams, by process, rank and function",
    columns={
        "communicator": _COMMUNICATOR,
        "rank": _RANK,
        "count": Column("calls that returned in the interval, without those inside others"),
        "errors": Column("calls that failed"),
        "bytes": Column("bytes of calls that did not fail", "bytes"),
        "late_ns": Column("sum of how much later this rank called collectives than the first on this machine", "ns"),
        "total_ns": Column("sum of the calls' durations", "ns"),
        "latency": Column("histogram of durations, in powers of two", "ns"),
    },
    summary=Summary(),
    made=Made(derived={"function": _FUNCTION}, derive=_derive_name),
    hidden=("function_id", "has_communicator", "has_rank"),
    null_unless={"communicator": "has_communicator", "rank": "has_rank"},
    failed="errors > 0",
    shown=Shown(
        tables=(
            Table(
                ("comm", "function"),
                (Sum("count"), Sum("errors"), Sum("bytes"), Sum("total_ns"), Quantiles("latency")),
                title="calls by function",
            ),
            Table(
                ("comm", "pid", "communicator", "rank"),
                (Sum("count"), Sum("bytes"), Sum("total_ns"), Sum("late_ns")),
                where="communicator is not null",
                title="calls by rank: late after the first rank on the machine",
            ),
        ),
    ),
    rollup=Rollup(by=("comm", "function"), count="count", measured="total_ns", histogram="latency"),
)

_WAIT = Stream(
    "nccl_wait",
    "one row per finished wait of the host for a CUDA stream, or a device, with calls of NCCL, timed at entry",
    columns={
        "duration_ns": Column("from entry to return of the function that waits", "ns"),
        "stream": Column(
            "the CUDA stream's handle; 0: the default stream; absent: all streams of a device", hex=True, identity=True
        ),
        "calls": Column("collectives, sends and receives of the process on the stream, or all, since its wait before"),
        "bytes": Column("their bytes", "bytes"),
        "result": Column("returned value, a cudaError_t or CUresult; 0: success"),
    },
    hidden=("has_stream",),
    null_unless={"stream": "has_stream"},
    failed="result != 0",
    shown=Shown(
        tables=(
            Table(
                ("comm", "pid"),
                (Count(), Sum("calls"), Sum("bytes"), Quantiles("duration_ns"), Sum("duration_ns")),
                title="waits for streams with calls of NCCL",
            ),
        ),
        line=("duration_ns", "calls", "bytes", "stream"),
        timeline=Timeline(slices=(Slices(text="wait for NCCL", by_thread=""),)),
    ),
    rollup=Rollup(measured="duration_ns"),
)

PROBE = Probe(
    name="nccl",
    meaning="NCCL: collectives and point-to-point between GPUs, by communicator and rank, and who is late",
    streams=(_CALL, _WAIT, _SUMMARY),
    alternatives=(
        Alternative(f"uprobe_multi: {_ATTACHED}", ("nccl_abandon", "nccl_replace"), uprobe_multi=True),
        Alternative(f"uprobe: {_ATTACHED}", ("nccl_abandon", "nccl_replace")),
    ),
    places=lambda _: tuple(function.place for function in FUNCTIONS),
    libraries=("libnccl.so", "libcuda.so", "libcudart.so"),
    kept_by_process=("nccl_communicators", "nccl_pending"),
    guide=GUIDE,
)
