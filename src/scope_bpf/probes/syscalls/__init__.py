"""Every syscall of the watched threads: entry and exit in one row."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Stream, Summary, Tails
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.syscalls import table as syscall_table
from scope_bpf.probes.syscalls.classes import CLASSES
from scope_bpf.probes.syscalls.errors import errors
from scope_bpf.probes.syscalls.guide import GUIDE
from scope_bpf.probes.syscalls.readings import LEVELS, MOST_DATA_BYTES, NOTHING, reading_table
from scope_catalogue.codes import Codes
from scope_catalogue.options import Option
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Failed, Quantiles, Sum, Table

_IS_ARM = os.uname().machine == "aarch64"
TABLE = syscall_table.ARM64 if _IS_ARM else syscall_table.X86_64
NUMBERS = {name: number for number, name in TABLE.items()}
TABLE_32 = syscall_table.ARM if _IS_ARM else syscall_table.I386  # of 32-bit calls on this architecture
NUMBERS_32 = {name: number for number, name in TABLE_32.items()}

_MOST = max(*TABLE, *TABLE_32) + 1
# The names of all calls, 32-bit ones behind the others: see place_in_names().
NAMES = dict(TABLE) | {_MOST + number: name for number, name in TABLE_32.items()}
_NAMES = pa.array([NAMES.get(place) for place in range(2 * _MOST)], pa.string())


def by_number(values: Mapping[str, int], numbers: Mapping[str, int] = NUMBERS) -> Rows:
    """A table for programs, by call number: uint8; the value of each call that this architecture has, else 0."""
    table = np.zeros(max(numbers.values()) + 1, np.uint8)
    for name, value in values.items():
        if name in numbers:
            table[numbers[name]] = value
    return table


def place_in_names(rows: Rows) -> Rows:
    """Where NAMES has the call of each row: its number, of a 32-bit call behind those of all others."""
    places: Rows = rows["nr"] + _MOST * (rows["compat"] != 0)
    return places


def _derive_name(rows: Rows) -> dict[str, pa.Array]:
    unknown = (rows["nr"] < 0) | (rows["nr"] >= _MOST)
    numbers = np.where(unknown, 0, place_in_names(rows))
    present = np.flatnonzero(np.bincount(numbers, minlength=len(_NAMES)))
    codes = np.zeros(len(_NAMES), np.int32)
    codes[present] = np.arange(len(present))
    names = _NAMES.take(pa.array(present))
    return {"name": pa.DictionaryArray.from_arrays(pa.array(codes[numbers], mask=unknown), names)}


def _derive(rows: Rows) -> dict[str, pa.Array]:
    return _derive_name(rows) | {"error": errors(rows)}


def _decode(rows: Rows, tails: Tails, wanted: Collection[str]) -> dict[str, pa.Array]:
    from scope_bpf.probes.syscalls.decode import decode

    return decode(rows, tails, wanted, TABLE, _layouts())


@cache
def _layouts() -> Any:
    from scope_bpf.probes.syscalls.pieces import Layouts

    return Layouts(PROBE.btf)


_ONLY = Option(
    "names",
    "names",
    (),
    "only these calls: names, patterns and classes as in strace(1), such as openat,read or epoll_*,%network; classes: "
    f"{', '.join(CLASSES)}",
    choices=tuple(sorted({*NUMBERS, *NUMBERS_32})),
    classes=CLASSES,
    column="name",
)


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    readings = reading_table(options["decode"], enum_values(PROBE.btf, "syscall_read"), NUMBERS)
    selected = dict.fromkeys(_ONLY.chosen(options["names"]), 1)
    return {
        "select_by_name": bool(options["names"]),
        "selected": by_number(selected),
        "selected_32": by_number(selected, NUMBERS_32),
        "decoded": options["decode"] != NOTHING,
        "reads": readings.any(),
        "readings": readings,
        "data_bytes": options["data_bytes"],
    }


_NAME = Derived(
    Column("name of the call; absent for unknown numbers"),
    pa.dictionary(pa.int32(), pa.string()),
)

_ERROR = Derived(
    Column("name of the error, such as ENOENT; absent if the call did not fail"), pa.dictionary(pa.int32(), pa.string())
)
_DECODED = {
    "args": Derived(
        Column("the arguments as strace shows them; absent with decode=none and for 32-bit calls"), pa.string()
    ),
    "result": Derived(Column("the result as strace shows it; absent if args is absent"), pa.string()),
    "path": Derived(
        Column(
            "absolute path of the call's file, by name or else by descriptor; '..' and links are not resolved; only "
            "with decode=paths or all"
        ),
        pa.string(),
    ),
}

_RUNNING, _WAITING = "calls that did not wait", "calls that waited (the thread gave up its CPU)"
_WAITED_HERE = "waited != 0"
# Calls that sleep until something happens would be above all that keep a CPU busy.
_CALLS = Table(
    ("comm", "name"),
    (Count(), Failed(), Sum("duration_ns"), Quantiles("duration_ns")),
    where="waited = 0",
    title=_RUNNING,
)
_SUMS = Table(
    ("comm", "name"),
    (Sum("count"), Sum("errors"), Sum("total_ns"), Quantiles("latency")),
    where="waited = 0",
    title=_RUNNING,
)
_WAITED = Column("1 if the thread gave up its CPU during the call to wait for something")

PROBE = Probe(
    name="syscalls",
    meaning="every syscall with its arguments, result and duration",
    streams=(
        Stream(
            "syscall",
            "one row per finished call, timed at entry",
            columns={
                "nr": Column("number of the call; of a 32-bit call, from another table"),
                **{f"arg{n}": Column(f"argument {n}, the raw register", hex=True) for n in range(6)},
                "ret": Column("return value, -errno on failure; absent if the call never returned", codes=Codes.ERROR),
                "waited": _WAITED,
                "duration_ns": Column("from entry to exit", "ns"),
            },
            made=Made(derived={"name": _NAME, "error": _ERROR}, derive=_derive, decoded=_DECODED, decode=_decode),
            hidden=("compat", "returned", "decoded"),
            null_unless={"ret": "returned"},
            failed="ret < 0",
            shown=Shown(
                tables=(_CALLS, replace(_CALLS, title=_WAITING, where=_WAITED_HERE)),
                line=("tid", "duration_ns", "{name}({args}) = {result}"),
                timeline=Timeline(slices=(Slices(named=("name",), by_thread=""),)),
            ),
            rollup=Rollup(by=("comm", "name"), measured="duration_ns"),
        ),
        Stream(
            "syscall_summary",
            "counts and durations of calls, by process and call",
            columns={
                "nr": Column("number of the call; of a 32-bit call, from another table"),
                "count": Column("calls that ended in the interval"),
                "errors": Column("calls that failed"),
                "waited": _WAITED,
                "total_ns": Column("sum of the calls' durations", "ns"),
                "latency": Column("histogram of durations, in powers of two", "ns"),
            },
            summary=Summary(),
            made=Made(derived={"name": _NAME}, derive=_derive_name),
            hidden=("compat",),
            failed="errors > 0",
            shown=Shown(tables=(_SUMS, replace(_SUMS, title=_WAITING, where=_WAITED_HERE))),
            rollup=Rollup(by=("comm", "name"), count="count", measured="total_ns", histogram="latency"),
        ),
    ),
    ring_bytes=32 << 20,
    alternatives=(
        Alternative(
            "tp_btf: sys_enter, sys_exit",
            ("syscall_exit", "syscall_abandon", "syscall_enter"),
            unseen={"uring": "io_uring submissions"},
        ),
    ),
    extra_options=(
        _ONLY,
        Option(
            "decode",
            "choice",
            NOTHING,
            "how much args and result show. none: they are absent; registers: numbers, flags and their names, at no "
            "cost for the program; paths: also paths, and the files of descriptors; all: also strings, data and "
            "addresses",
            choices=LEVELS,
            for_lines="all",
            makes={"args": "registers", "result": "registers", "path": "paths"},
        ),
        Option(
            "data_bytes",
            "integer",
            32,
            "number of bytes that are read of a buffer, with decode=all",
            minimum=0,
            maximum=MOST_DATA_BYTES,
        ),
    ),
    constants=_constants,
    guide=GUIDE,
)
