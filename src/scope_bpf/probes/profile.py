"""Where threads spend their time: samples of their stacks on a CPU, and their stacks whenever they leave it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Stream, Summary
from scope_bpf.layout.records import enum_values
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Flame, Rollup, Samples, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Cell, Count, Inclusive, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_WORD = pa.dictionary(pa.int32(), pa.string())
_CPU, _OFF_CPU = "cpu", "off_cpu"


def _derive(rows: Rows) -> dict[str, pa.Array]:
    """The name of each row's part."""
    names = [name.removeprefix("PROFILE_").lower() for name in enum_values(PROBE.btf, "profile_part")]
    parts = pa.array(np.minimum(rows["part_id"], len(names) - 1).astype(np.int32))
    return {"part": pa.DictionaryArray.from_arrays(parts, pa.array(names))}


def _hooks(options: Mapping[str, Any]) -> Hooks:
    chosen = stacks.UNWOUND_HOOKS
    if _CPU in options["record"]:
        chosen += Hooks(sampled={"profile_sample": options["rate"]})
    if _OFF_CPU in options["record"]:
        chosen += Hooks(last=("profile_switch", "profile_wakeup"))
    return chosen


def _resolver(object_: "BpfObject", modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.code.stacks import StackResolver

    return StackResolver(object_, modules, all_processes=True)


_PART = Derived(Column("on_cpu; run_queue: runnable, waiting for a CPU; blocked"), _WORD)


def _tables(time: str, *cells: Cell) -> tuple[Table, ...]:
    """By function, line and stack, with these cells.

    Args:
        time: the column of the time that a row stands for.
    """
    functions, lines = ((*cells, Inclusive("stack", time, of)) for of in ("function", "python"))
    return (
        Table(("comm", "part", "function"), functions, title="time by function: its own, and inclusive"),
        Table(
            ("comm", "part", "python"),
            lines,
            where="python is not null",
            title="time by Python line: its own, and inclusive",
        ),
        Table(("comm", "part", "stack"), cells, where="stack is not null", title="time by stack"),
    )


GUIDE = Guide(
    examples=(
        Example(
            "scope trace profile --flamegraph /tmp/flames.svg -- python3 -c 'sum(i * i for i in range(3_000_000))'",
            "a flame graph that a browser can search, and tables by function and by Python line",
        ),
        Example(
            "scope trace profile -o record=cpu,off_cpu --folded /tmp/stacks.txt -- sh -c 'sleep 0.2; ls /'",
            "stacks on a CPU and off it, as text for other tools",
        ),
    ),
    notes=(
        "Stacks of threads on a CPU are sampled 99 times a second (`-o rate=`).",
        "`-o record=cpu,off_cpu` also records each time that a thread is off a CPU, with the stack at which it "
        "left: `blocked` until it was woken, then `run_queue` until it got a CPU.",
        "A stack has the program's functions, Python's functions with file and line, and the kernel's functions "
        "(`_[k]`). How stacks are walked and named: docs/trace.md.",
    ),
    limits=(
        "A program that was started just now is known to the unwinder after some milliseconds. Until then, and "
        "where code has no `.eh_frame`, stacks follow frame pointers: `walked` says `frame_pointers`, and outer "
        "frames may be missing.",
        "A sample tells nothing of what happened between two samples: for single calls use `span`, `python` or `cuda`.",
    ),
)

PROBE = Probe(
    name="profile",
    meaning="where threads spend their time: sampled stacks on a CPU, stacks at which they leave it; Python's too",
    streams=(
        Stream(
            "profile",
            "a sample of a thread on a CPU, or one time off it",
            columns={
                "duration_ns": Column(
                    "of a sample: the time between two samples; else: how long the part lasted", "ns"
                ),
                "stack_id": Column("number of the stack, unique within the process", hex=True, identity=True),
            },
            hidden=("part_id",),
            made=Made(derived={"part": _PART}, derive=_derive, resolved=stacks.COLUMNS),
            shown=Shown(
                tables=_tables("duration_ns", Count(), Sum("duration_ns")),
                line=("part", "duration_ns", "stack"),
                timeline=Timeline(
                    slices=(
                        Slices(named=("part",), below="off a CPU", where="part in (run_queue, blocked)", by_thread=""),
                    ),
                    samples=Samples(where="part = on_cpu"),
                ),
                flame=Flame(weight="duration_ns", by=("comm", "part"), title="time, by stack"),
            ),
            rollup=Rollup(by=("comm", "part"), measured="duration_ns"),
        ),
        Stream(
            "profile_summary",
            "samples, and times off a CPU, by stack",
            columns={
                "thread_comm": Column("name of the thread"),
                "stack_id": Column("number of the stack, unique within the process", hex=True, identity=True),
                "count": Column("samples, or times off a CPU that ended in the interval"),
                "total_ns": Column("sum of their durations", "ns"),
            },
            summary=Summary(),
            hidden=("part_id",),
            made=Made(derived={"part": _PART}, derive=_derive, resolved=stacks.COLUMNS),
            shown=Shown(
                tables=_tables("total_ns", Sum("count"), Sum("total_ns")),
                flame=Flame(weight="total_ns", by=("comm", "part"), title="time, by stack"),
            ),
            rollup=Rollup(by=("comm", "part"), count="count", measured="total_ns"),
        ),
    ),
    ring_bytes=4 << 20,
    alternatives=(Alternative("perf events: the clock of each CPU; tp_btf: sched_switch, sched_wakeup"),),
    extra_options=(
        Option(
            "record",
            "names",
            (_CPU,),
            f"{_CPU}: samples of threads on a CPU; {_OFF_CPU}: every time that a thread is off a CPU, with its stack",
            choices=(_CPU, _OFF_CPU),
        ),
        Option("rate", "integer", 99, "samples a second on each CPU", minimum=1, maximum=10000),
        Option(
            "min_duration_ns",
            "integer",
            0,
            f"{_OFF_CPU}: record only times off a CPU that last at least this long, in ns",
            minimum=0,
        ),
    ),
    hooks=_hooks,
    constants=lambda options: {"min_ns": options["min_duration_ns"]},
    kept_by_process=stacks.MAPS,
    resolver=_resolver,
    guide=GUIDE,
)
