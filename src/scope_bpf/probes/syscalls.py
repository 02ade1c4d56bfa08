"""Every syscall of the watched threads: entry and exit joined."""

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf import syscall_table
from scope_bpf.catalogue import Alternative, Column, Derived, Mode, Probe, Rows, Stream
from scope_bpf.options import Option

TABLE = syscall_table.ARM64 if platform.machine() == "aarch64" else syscall_table.X86_64
NUMBERS = {name: number for number, name in TABLE.items()}
SELECTABLE = 1024  # SYSCALLS in syscalls.bpf.c

_NAMES = pa.array([TABLE.get(number) for number in range(max(TABLE) + 1)], pa.string())


def _derive_name(rows: Rows) -> dict[str, pa.Array]:
    numbers = rows["nr"]
    known = (numbers >= 0) & (numbers < len(_NAMES)) & (rows["compat"] == 0)
    codes = pa.array(np.where(known, numbers, 0).astype(np.int32), mask=~known)
    return {"name": pa.DictionaryArray.from_arrays(codes, _NAMES).dictionary_decode().dictionary_encode()}


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    selected = np.zeros(SELECTABLE, np.uint8)
    selected[[NUMBERS[name] for name in options["names"]]] = 1
    return {"select_by_name": bool(options["names"]), "selected": selected}


_NAME = Derived(
    Column("the call; absent for a number that no table has and for 32-bit calls"), pa.dictionary(pa.int32(), pa.string())
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
        ),
    ),
    alternatives=(
        Alternative("tp_btf: sys_enter, sys_exit", ("syscall_enter", "syscall_exit", "syscall_abandon")),
    ),
    extra_options=(
        Option(
            "names",
            "names",
            (),
            "only these calls, such as openat,read",
            choices=tuple(sorted(NUMBERS)),
        ),
    ),
    constants=_constants,
)
