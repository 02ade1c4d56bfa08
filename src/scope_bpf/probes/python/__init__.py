"""Calls of Python functions in CPython, through its USDT probes or its evaluation of frames; else, samples of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.place import Chosen, Place, Usdt
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Made, Names, Stream, Summary
from scope_bpf.code.python.versions import EVALUATED, EVALUATES, OFFSETS, Version
from scope_bpf.probes.python.guide import GUIDE
from scope_catalogue.errors import InvalidOption
from scope_catalogue.options import Option
from scope_catalogue.shown import Flame, Rollup, Samples, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Inclusive, Quantiles, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.elf import ElfFile
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_MOST = 4  # PYTHON_WANTED
_LONGEST_FUNCTION, _LONGEST_FILE = 255, 1023  # bytes: PYTHON_FUNCTION and PYTHON_FILE without the NUL

_FUNCTION = Column("name of the function, without its class; <module> for the code of a module; absent if unreadable")
_FILE = Column("file of the function's code, as Python names it; absent if unreadable, or longer than 1,022 bytes")
_PROGRAMS = ("calls_exit", "calls_exec")
_SAMPLED = {"stack": stacks.STACK, "python": stacks.COLUMNS["python"]}
_STACK_ID = Column(
    "number of the stack, unique within the process; 0: no Python function ran, or not kept", hex=True, identity=True
)


def _times(time: str) -> tuple[Sum, Inclusive]:
    """The time of a line, and that with the lines below it in the stack of Python functions."""
    return Sum(time), Inclusive("stack", time, "python")


_BY_LINE = Table(
    ("comm", "python"),
    (Count(), *_times("duration_ns")),
    title="sampled time by line, its own and inclusive, of interpreters whose calls are not recorded",
)


def _check(what: str, longest: int) -> Any:
    def check(texts: tuple[str, ...]) -> None:
        if len(texts) > _MOST:
            raise InvalidOption(f"{_MOST} {what} can be given, not {len(texts)}")
        for text in texts:
            if len(text.encode()) > longest or "\0" in text:
                raise InvalidOption(f"{what} have at most {longest} bytes, and no NUL: '{text[:40]}'")

    return check


def _places(options: Mapping[str, Any]) -> Sequence[Place]:
    arguments = (0, 1, 2)
    return (
        *(_evaluation(version) for version in EVALUATED if options["evaluate"]),
        Place(Usdt("python", "function__return", arguments=arguments, is_expected=False), "python_leave"),
        Place(Usdt("python", "function__entry", arguments=arguments, is_expected=False), "python_enter"),
        # The function is new in CPython 3.11, and the probe is gone in 3.12: others do not need it.
        Place(Usdt("python", "line", is_expected=False, instead="PyFrame_GetLasti"), "python_raise"),
    )


def _evaluation(version: Version) -> Place:
    from scope_bpf.code.python.interpreter import interpreter_in
    from scope_bpf.probes.python.interpreters import has_entries

    def accepts(elf: "ElfFile") -> bool:
        interpreter = interpreter_in(elf)
        return bool(interpreter and interpreter.evaluated == version and not has_entries(elf))

    offsets = OFFSETS[version]
    return Place(
        Chosen(EVALUATES, accepts, "CPython {}.{}".format(*version)),
        "python_evaluate",
        "python_evaluated",
        keep={
            "frame_code": offsets["code"],
            "code_line": offsets["first_line"],
            "code_file": offsets["file"],
            "code_function": offsets["name"],
            "second": version >= (3, 9),  # Include/internal/pycore_ceval.h
        },
    )


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    functions, files = options["function"], options["file_prefix"]
    return {
        "min_ns": options["min_duration_ns"],
        "wanted_functions": len(functions),
        "wanted_files": len(files),
        "wanted_function": np.array([one.encode() for one in functions] or [b""], f"S{_LONGEST_FUNCTION + 1}"),
        "wanted_file": np.array([one.encode() for one in files] or [b""], f"S{_LONGEST_FILE + 1}"),
        "wanted_file_length": np.array([len(one.encode()) for one in files] or [0], "<u4"),
    }


def _resolver(object_: "BpfObject", modules: "Modules", options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.probes.python.interpreters import Interpreters

    return Interpreters(object_, modules, evaluate=options["evaluate"], rate=options["rate"])


PROBE = Probe(
    name="python",
    meaning="calls of Python functions in CPython: what they took, and which called which; or samples of them",
    streams=(
        Stream(
            "python_call",
            "one row per finished call of a Python function, timed at entry; a generator is called at each resumption",
            columns={
                "duration_ns": Column("from entry to end", "ns"),
                "self_ns": Column("the duration without that of calls inside", "ns"),
                "function": _FUNCTION,
                "file": _FILE,
                "line": Column(
                    "line at which the call began: that of its def, or of the yield at which it went on; with "
                    "evaluate=true always that of its def, or of its first decorator"
                ),
                "depth": Column(
                    "number of Python calls of the thread around this one that began while it was recorded"
                ),
                "ended": Column(
                    "returned (or yielded); raised; ended, if the way to attach does not tell: USDT probes do not"
                ),
            },
            hidden=("has_function", "has_file"),
            null_unless={"function": "has_function", "file": "has_file"},
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "file", "function"),
                        (Count(), Sum("duration_ns"), Sum("self_ns"), Quantiles("duration_ns")),
                        title="calls by function",
                    ),
                ),
                line=("tid", "duration_ns", "self_ns", "{function} {file}:{line}"),
                timeline=Timeline(slices=(Slices(named=("function",), by_thread=""),)),
            ),
            rollup=Rollup(measured="duration_ns"),
        ),
        Stream(
            "python_code",
            "the names of a function, once per interval in which a summary counts it",
            columns={"code": Column("a hash of the names"), "function": _FUNCTION, "file": _FILE},
            hidden=("has_function", "has_file"),
            null_unless={"function": "has_function", "file": "has_file"},
            internal=True,
        ),
        Stream(
            "python_call_summary",
            "counts and durations of calls, by process and function",
            columns={
                "code": Column("a hash of the names of file and function", identity=True),
                "calls": Column("calls that ended in the interval"),
                "total_ns": Column("sum of the durations; calls within calls of the same function count in both", "ns"),
                "self_ns": Column("sum of the durations without those of calls inside", "ns"),
                "latency": Column("histogram of durations, in powers of two", "ns"),
            },
            summary=Summary(),
            names=Names("python_code", ("start_ns", "pid", "code"), "function", _FUNCTION, {"file": _FILE}),
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "file", "function"),
                        (Sum("calls"), Sum("total_ns"), Sum("self_ns"), Quantiles("latency")),
                        ranked_by=("self_ns",),
                    ),
                )
            ),
            rollup=Rollup(count="calls", measured="total_ns", histogram="latency"),
        ),
        Stream(
            "python_sample",
            "one row per sample of a thread on a CPU, only of interpreters whose calls cannot be recorded",
            columns={"duration_ns": Column("the time between two samples", "ns"), "stack_id": _STACK_ID},
            made=Made(resolved=_SAMPLED),
            shown=Shown(
                tables=(_BY_LINE,),
                line=("duration_ns", "python"),
                timeline=Timeline(samples=Samples()),
                flame=Flame(weight="duration_ns", title="sampled time, by Python stack"),
            ),
            rollup=Rollup(measured="duration_ns"),
        ),
        Stream(
            "python_sample_summary",
            "samples by stack, only of interpreters whose calls cannot be recorded",
            columns={
                "stack_id": _STACK_ID,
                "count": Column("samples"),
                "total_ns": Column("sum of the times that they stand for", "ns"),
            },
            summary=Summary(),
            made=Made(resolved=_SAMPLED),
            shown=Shown(
                tables=(replace(_BY_LINE, cells=(Sum("count"), *_times("total_ns"))),),
                flame=Flame(weight="total_ns", title="sampled time, by Python stack"),
            ),
            rollup=Rollup(count="count", measured="total_ns"),
        ),
    ),
    ring_bytes=8 << 20,
    alternatives=(
        Alternative("uprobe_multi: CPython", _PROGRAMS, uprobe_multi=True),
        Alternative("uprobe: CPython", _PROGRAMS),
    ),
    extra_options=(
        Option(
            "file_prefix",
            "texts",
            (),
            f"record only calls of functions of files whose names begin so; up to {_MOST}",
            check=_check("prefixes of files", _LONGEST_FILE),
        ),
        Option(
            "function",
            "texts",
            (),
            f"record only calls of functions with this name; up to {_MOST}",
            check=_check("functions", _LONGEST_FUNCTION),
        ),
        Option(
            "evaluate",
            "boolean",
            False,
            "also record calls of CPython 3.6 to 3.10 without USDT probes, up to 64 calls deep. Not for programs that "
            "switch stacks, such as those with greenlet or gevent: they would end",
        ),
        Option(
            "rate",
            "integer",
            99,
            "samples a second on each CPU, of interpreters whose calls cannot be recorded",
            minimum=1,
            maximum=10000,
        ),
        Option(
            "min_duration_ns",
            "integer",
            0,
            "record only calls that last at least this long, in ns; events only",
            minimum=0,
        ),
    ),
    hooks=lambda options: stacks.HOOKS + Hooks(sampled={"python_sample": options["rate"]}),
    constants=_constants,
    places=_places,
    kept_by_process=stacks.MAPS,
    resolver=_resolver,
    guide=GUIDE,
)
