"""Any function or USDT probe of any program: its calls with arguments, result, duration and stack, as declared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from scope_bpf.catalogue import spent, stacks
from scope_bpf.catalogue.place import Usdt
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Derived, Made, Stream, Summary
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.span.declaration import (
    ARGUMENTS,
    MOST_STEPS,
    MOST_VALUES,
    Declaration,
    Kept,
    SpanPlace,
    check,
    parse,
)
from scope_bpf.probes.span.guide import GUIDE
from scope_catalogue.options import Option
from scope_catalogue.shown import Flame, Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Quantiles, Share, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_WORD = pa.dictionary(pa.int32(), pa.string())
_RETURNS = ("safe", "all", "none")


def _place(declaration: Declaration, returns: str) -> SpanPlace:
    sources = enum_values(PROBE.btf, "span_source")
    # Absent values come last, and the text after them, as in struct span_place.
    kept = [*declaration.values, *[None] * (MOST_VALUES - len(declaration.values)), declaration.text]
    arguments = [one.argument + 1 for one in kept if one and one.argument is not None]
    records = [_record(one, sources) for one in kept]
    keep = {"value": records[:MOST_VALUES], "text": records[MOST_VALUES], "arguments": max(arguments, default=0)}
    programs = {"entry": "span_enter", "leave": "span_return", "begins_only": "span_call"}
    if isinstance(declaration.at, Usdt):
        programs = {"entry": "span_moment"}
    elif returns == "none":
        programs = {"entry": "span_call"}
    return SpanPlace(declaration.at, **programs, keep=keep, throwing_too=returns == "all", declaration=declaration)


def _record(kept: Kept | None, sources: Mapping[str, int]) -> tuple[Any, ...]:
    """The members of a struct span_kept."""
    if not kept:
        return sources["SPAN_NOTHING"], 0, 0, 0, (0,) * MOST_STEPS
    source = sources["SPAN_RESULT"] if kept.argument is None else kept.argument
    offsets = (*kept.offsets, *[0] * (MOST_STEPS - len(kept.offsets)))
    return source, len(kept.offsets), kept.size, 0, offsets


def _places(options: Mapping[str, Any]) -> Sequence[SpanPlace]:
    return tuple(_place(parse(declared), options["returns"]) for declared in options["functions"])


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "keep_stacks": options["stacks"],
        "keep_where": options["where"],
        "one_in": options["sample"],
        "min_ns": options["min_duration_ns"],
    }


def _hooks(options: Mapping[str, Any]) -> Hooks:
    return (spent.HOOKS if options["where"] else Hooks()) + (stacks.UNWOUND_HOOKS if options["stacks"] else Hooks())


def _resolver(object_: "BpfObject", modules: "Modules", options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.probes.span.resolver import SpanResolver

    return SpanResolver(object_, modules, _places(options))


_FUNCTION = {
    "function": Derived(
        Column(
            "name of the function, demangled; the file and an offset if it has no symbol; PROVIDER:NAME of a USDT probe"
        ),
        _WORD,
    ),
    "file": Derived(Column("file that contains the function"), _WORD),
}

_BY_STACK = Table(
    ("comm", "function", "stack"),
    (Count(), Sum("duration_ns")),
    where="stack is not null",
    title="calls by the stack that made them",
)

_WHERE_BY_FUNCTION = Table(
    ("comm", "function"),
    (Count(), *map(Sum, spent.COLUMNS), *map(Share, spent.PARTS)),
    ranked_by=spent.PARTS,
    where="on_cpu_ns > 0",
    title="where the time of calls went",
)

PROBE = Probe(
    name="span",
    meaning="calls of any functions and USDT probes in user space, with the arguments and results that you choose",
    streams=(
        Stream(
            "span",
            "one row per finished call, timed at entry; one per hit of a USDT probe",
            columns={
                "duration_ns": Column(
                    "from entry to return, or to the end of the thread; absent if the return is not recorded", "ns"
                ),
                "text": Column(
                    "the value declared as str, cut after 255 bytes; absent if unreadable, and of arguments of calls "
                    "with a depth of 16 or more"
                ),
                "depth": Column("number of calls of the thread around this one whose returns are recorded"),
                **spent.COLUMNS,
                "ended": Column(
                    "returned; thread_ended during the call; not_recorded if only the begin is recorded; moment: a "
                    "USDT probe, which is no call"
                ),
            },
            made=Made(
                resolved=_FUNCTION
                | {
                    "args": Derived(
                        Column("the declared numbers, as NAME=VALUE; one that was unreadable is left out"), pa.string()
                    ),
                    "stack": Derived(
                        Column(
                            "call stack, outermost frame first; starts with [cut] if cut; absent without stacks=true",
                            stack=True,
                        ),
                        _WORD,
                    ),
                }
            ),
            hidden=(
                *("address", "stack_id", "place", "kept", "has_text", "has_duration", "has_where"),
                *(f"value{number}" for number in range(MOST_VALUES)),
            ),
            null_unless={
                "duration_ns": "has_duration",
                "text": "has_text",
                **dict.fromkeys(spent.COLUMNS, "has_where"),
            },
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "function"),
                        (Count(), Sum("duration_ns"), Quantiles("duration_ns")),
                        title="calls by function",
                    ),
                    _BY_STACK,
                    _WHERE_BY_FUNCTION,
                ),
                line=("tid", "duration_ns", "function", "args", "text"),
                timeline=Timeline(slices=(Slices(named=("function",), by_thread=""),)),
                flame=Flame(below=("function",), title="calls, by stack"),
            ),
            rollup=Rollup(by=("comm", "function"), measured="duration_ns"),
        ),
        Stream(
            "span_summary",
            "counts and durations of calls, by process and function",
            columns={
                "count": Column(
                    "calls that ended in the interval, or began if their return is not recorded; hits of USDT probes"
                ),
                "timed": Column("calls that returned in the interval; only these have a duration"),
                "total_ns": Column("sum of the durations; absent if there are none", "ns"),
                "explained": Column("calls that the parts of the time belong to: with where=true, those of `timed`"),
                **spent.COLUMNS,
                "latency": Column("histogram of durations, in powers of two", "ns"),
            },
            summary=Summary(),
            made=Made(resolved=_FUNCTION),
            hidden=("address", "place"),
            null_unless={"total_ns": "timed", **dict.fromkeys(spent.COLUMNS, "explained")},
            shown=Shown(
                tables=(
                    Table(("comm", "function"), (Sum("count"), Sum("total_ns"), Quantiles("latency"))),
                    replace(
                        _WHERE_BY_FUNCTION,
                        cells=(Sum("explained"), *map(Sum, spent.COLUMNS), *map(Share, spent.PARTS)),
                    ),
                )
            ),
            rollup=Rollup(by=("comm", "function"), count="count", measured="total_ns", histogram="latency"),
        ),
    ),
    ring_bytes=8 << 20,
    alternatives=(
        Alternative("uprobe_multi: the declared functions", ("span_abandon", "span_replace"), uprobe_multi=True),
        Alternative("uprobe: the declared functions", ("span_abandon", "span_replace")),
    ),
    extra_options=(
        Option(
            "functions",
            "texts",
            (),
            f"what to record: FILE:FUNCTION [NAME=SOURCE[->OFFSET...][:TYPE] ...]; SOURCE is ret or arg0 to "
            f"arg{ARGUMENTS - 1}. Names may have * and ?, and FUNCTION may be demangled. "
            "FILE:PROVIDER:NAME ... is a USDT probe",
            check=check,
            positional=True,
            example="libc:malloc size=arg0:u64 at=ret:ptr",
            trial="_native*:PyInit__native",
        ),
        Option(
            "returns",
            "choice",
            "safe",
            "which returns are recorded, and so durations and results; safe: not those of functions that are C++, Rust "
            "or D by their names, because a program ends if an exception passes a recorded return",
            choices=_RETURNS,
        ),
        Option("stacks", "boolean", False, "record the call stack of each call"),
        Option(
            "where",
            "boolean",
            False,
            "record where the time of each call went: on a CPU, waiting for a CPU, blocked, and in page faults",
        ),
        Option("sample", "integer", 1, "record one in so many calls, chosen at random; events only", minimum=1),
        Option(
            "min_duration_ns",
            "integer",
            0,
            "record only calls that last at least this long, in ns; calls without a duration are not recorded then; "
            "events only",
            minimum=0,
        ),
    ),
    hooks=_hooks,
    constants=_constants,
    places=_places,
    kept_by_process=stacks.MAPS,
    resolver=_resolver,
    guide=GUIDE,
)
