"""Every syscall of the watched threads: entry and exit joined."""

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.options import Option
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Failed, Live, Rollup, Slices, Timeline
from scope_bpf.catalogue.stream import Column, Derived, Mode, Rows, Stream
from scope_bpf.probes.syscalls import table as syscall_table

TABLE = syscall_table.ARM64 if platform.machine() == "aarch64" else syscall_table.X86_64
NUMBERS = {name: number for number, name in TABLE.items()}

_NAMES = pa.array([TABLE.get(number) for number in range(max(TABLE) + 1)], pa.string())


def by_number(values: Mapping[str, int]) -> Rows:
    """A table by number of call, for programs: uint8, the value of each call that this architecture has; else 0."""
    table = np.zeros(max(TABLE) + 1, np.uint8)
    for name, value in values.items():
        if name in NUMBERS:
            table[NUMBERS[name]] = value
    return table


def _derive_name(rows: Rows) -> dict[str, pa.Array]:
    unknown = (rows["nr"] < 0) | (rows["nr"] >= len(_NAMES)) | (rows["compat"] != 0)
    numbers = np.where(unknown, 0, rows["nr"])
    present = np.flatnonzero(np.bincount(numbers, minlength=len(_NAMES)))
    codes = np.zeros(len(_NAMES), np.int32)
    codes[present] = np.arange(len(present))
    names = _NAMES.take(pa.array(present))
    return {"name": pa.DictionaryArray.from_arrays(pa.array(codes[numbers], mask=unknown), names)}


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"select_by_name": bool(options["names"]), "selected": by_number(dict.fromkeys(options["names"], 1))}


_NAME = Derived(
    Column("the call; absent for a number that no table has and for 32-bit calls"),
    pa.dictionary(pa.int32(), pa.string()),
)

PROBE = Probe(
    name="syscalls",
    meaning="every syscall, its arguments, result and duration",
    streams=(
        Stream(
            "syscall",
            "a call, when it ends; its time is the entry's",
            columns={
                "nr": Column("number of the call"),
                **{f"arg{n}": Column(f"argument {n}, the register as it is", hex=True) for n in range(6)},
                "ret": Column("what the kernel returned, -errno on failure; absent if it never did"),
                "duration_ns": Column("from entry to exit", "ns"),
            },
            derived={"name": _NAME},
            derive=_derive_name,
            hidden=("compat", "returned"),
            null_unless={"ret": "returned"},
            live=Live(by=("comm", "name"), totals=("duration_ns",), quantiles=("duration_ns",), failures="ret"),
            line=("tid", "duration_ns", "ret", "name"),
            timeline=Timeline(slices=(Slices(named=("name",)),)),
            rollup=Rollup(by=("comm", "name"), measured="duration_ns", failed="ret"),
        ),
        Stream(
            "syscall_summary",
            "calls by process and number",
            columns={
                "nr": Column("number of the call"),
                "count": Column("calls that ended in the interval"),
                "errors": Column("those that returned -errno"),
                "total_ns": Column("their durations, added up", "ns"),
                "latency": Column("their durations by powers of two", "ns"),
            },
            mode=Mode.SUMMARY,
            derived={"name": _NAME},
            derive=_derive_name,
            hidden=("compat",),
            live=Live(by=("comm", "name"), totals=("count", "errors", "total_ns"), quantiles=("latency",)),
            rollup=Rollup(
                by=("comm", "name"),
                count="count",
                measured="total_ns",
                histogram="latency",
                failed="errors",
                failed_if=Failed.COUNTED,
            ),
        ),
    ),
    ring_bytes=32 << 20,
    alternatives=(Alternative("tp_btf: sys_enter, sys_exit", ("syscall_exit", "syscall_abandon", "syscall_enter")),),
    extra_options=(
        Option(
            "names",
            "names",
            (),
            "only these calls, such as openat,read",
            choices=tuple(sorted(NUMBERS)),
            column="name",
        ),
    ),
    constants=_constants,
)
