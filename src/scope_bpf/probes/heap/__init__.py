"""The heap: memory from malloc and the like that is not freed, by the stack that allocated it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Stream, Summary
from scope_bpf.probes.heap.functions import places
from scope_bpf.probes.heap.guide import GUIDE
from scope_catalogue.options import Option
from scope_catalogue.shown import Counter, Flame, Latest, Shown, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_LARGEST = (1 << 32) - 1


def _resolver(object_: "BpfObject", modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.code.stacks import StackResolver

    return StackResolver(object_, modules)


def _derive_live(rows: Rows) -> dict[str, pa.Array]:
    some = rows["live_count"] > 0
    since_ns = rows["start_ns"] + rows["since_us"] // np.maximum(rows["live_count"], 1) * np.uint64(1000)
    return {"mean_age_ns": pa.array(rows["ktime_ns"] - since_ns, mask=~some)}


_LIVE_NOW = {
    "live_bytes": Column("memory not freed yet", "bytes"),
    "live_count": Column("allocations not freed yet"),
    "allocations": Column("all allocations since recording began"),
}
_SAMPLED = Column("bytes between sampled allocations: the figures are estimates; 0: all are recorded", "bytes")
_ENDED = Column("1 in the last row of a process: the process has ended, and its memory is free")

_MEMORY = Stream(
    "heap_memory",
    "memory that processes have not freed",
    columns=_LIVE_NOW
    | {
        "peak_bytes": Column("highest live_bytes so far", "bytes"),
        "allocated_bytes": Column("sum of all allocations since recording began", "bytes"),
        "frees": Column("all frees since recording began"),
        "unknown_frees": Column(
            "frees of memory that was allocated before recording began, or by the parent before the fork; 0 if sampled"
        ),
        "sample_bytes": _SAMPLED,
        "ended": _ENDED,
    },
    summary=Summary(gauge=True),
    shown=Shown(
        tables=(
            Table(
                ("comm", "pid", "sample_bytes"),
                (Sum("allocations"), Sum("frees"), Sum("live_count"), Sum("peak_bytes"), Sum("live_bytes")),
            ),
        ),
        timeline=Timeline(counters=(Counter("live_bytes", zero_where="ended != 0"),)),
    ),
    latest=Latest(
        key=("sample_bytes",),
        by=("comm", "sample_bytes"),
        totals=("live_bytes", "live_count", "allocations", "unknown_frees"),
        held=("live_count", "unknown_frees"),  # unknown frees: the process may have more such memory
        ended="ended",
    ),
)

_MEAN_AGE = Derived(Column("mean age of the allocations not freed yet", "ns"), pa.uint64())
_LIVE = Stream(
    "heap_live",
    "memory not freed yet, by the stack that allocated it",
    columns=_LIVE_NOW
    | {
        "stack_id": Column(
            "tells apart stacks with equal text: they differ in a line of the same function", hex=True, identity=True
        ),
        "sample_bytes": _SAMPLED,
        "ended": _ENDED,
    },
    summary=Summary(gauge=True),
    made=Made(
        derived={"mean_age_ns": _MEAN_AGE},
        derive=_derive_live,
        resolved={"stack": stacks.STACK},
    ),
    hidden=("since_us",),
    shown=Shown(
        tables=(Table(("comm", "pid", "stack"), (Sum("live_count"), Sum("mean_age_ns"), Sum("live_bytes"))),),
        flame=Flame(weight="live_bytes", title="memory not freed yet, by stack"),
    ),
    latest=Latest(
        key=("stack_id",),
        by=("comm", "sample_bytes", "stack"),
        totals=("live_bytes", "live_count", "allocations"),
        means={"mean_age_ns": "live_count"},
        held=("live_count",),
        ended="ended",
    ),
)

_ENDS = ("heap_abandon", "heap_replace")
_ATTACHED = "malloc, free and the like in C libraries and allocators"

PROBE = Probe(
    name="heap",
    meaning="heap memory that is not freed, by the code that allocated it: malloc of any C library or allocator",
    streams=(_MEMORY, _LIVE),
    alternatives=(
        Alternative(f"uprobe_multi: {_ATTACHED}", _ENDS, uprobe_multi=True),
        Alternative(f"uprobe: {_ATTACHED}", _ENDS),
    ),
    extra_options=(
        Option(
            "sample_bytes",
            "integer",
            0,
            "record an allocation with the probability of its size divided by this many bytes; 0: record all",
            minimum=0,
            maximum=_LARGEST,
        ),
        Option("stacks", "boolean", True, "record the call stacks of allocations"),
        Option(
            "throwing",
            "boolean",
            False,
            "also record operator new of jemalloc, tcmalloc and mimalloc; a program that catches std::bad_alloc ends",
        ),
    ),
    constants=lambda options: {"keep_stacks": options["stacks"], "sample_bytes": options["sample_bytes"]},
    kept_by_process=("heap_blocks", *stacks.MAPS),
    hooks=lambda options: stacks.UNWOUND_HOOKS if options["stacks"] else Hooks(),
    places=lambda options: places(options["throwing"]),
    libraries=("libc.so", "libjemalloc.so", "libtcmalloc", "libmimalloc"),
    resolver=_resolver,
    guide=GUIDE,
)
