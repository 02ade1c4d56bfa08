"""Locks: waits of threads for locks in user space, with the lock, its holder, and the stack that waits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Made, Stream, Summary
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Flame, Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Quantiles, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_ADDRESS = Column(
    "address of the lock, or of what else is waited for, in the process's memory", hex=True, identity=True
)
_KIND = Column(
    "lock: a mutex that another thread holds; other: a condition variable, a semaphore, the end of a thread, ..."
)
_STACK = {"stack": stacks.STACK}
_STACK_ID = Column(
    "tells apart stacks with equal text: they differ in a line of the same function", hex=True, identity=True
)
_WOKEN = "absent if no thread ended the wait, but time or a signal"


def _resolver(object_: "BpfObject", modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.code.stacks import StackResolver

    return StackResolver(object_, modules, all_processes=True)


GUIDE = Guide(
    examples=(
        Example(
            "scope trace locks -- python3 -c 'import threading, time; "
            "thread = threading.Thread(target=time.sleep, args=(0.1,)); thread.start(); thread.join()'",
            "the waits of a command's threads for each other, by lock",
        ),
        Example(
            "scope trace locks --mode summary --duration 1",
            "waits of the whole machine, added up by lock, with histograms",
        ),
    ),
    notes=(
        "A row is a wait in the kernel (futex) that has ended. A lock that is free, and one for which a thread only "
        "spins, make no wait and no row.",
        "`kind` is lock if the value that is waited for says so: by the conventions of glibc, musl, Rust and of the "
        "kernel's own locks (PI).",
        "`owner_tid` is the thread that held the lock when the wait began, as its process numbers threads; `waker_tid` "
        "is the thread that ended the wait: of a lock, the one that gave it up. It is known for every kind of lock.",
        "`ret` is -EAGAIN if the value had changed before the wait began, and -ETIMEDOUT or -EINTR if nobody woke the "
        "thread.",
        "A wait for several locks at once (futex_waitv) is of the kind other. Its `address` is that of the lock which "
        "ended it, and `ret` the lock's place among them; if it failed, the address of the first.",
        "`-o min_duration_ns=1000000` leaves out waits of less than a millisecond.",
    ),
    limits=(
        "`lock_wait_summary` has neither holder nor waker, which may be others at each wait.",
        "A wait that has not ended at the end of the trace has no row.",
        "Waits of 32-bit programs have no stack.",
        "The owner is known for locks of glibc, musl and PI locks, not for those of Rust, Go or C++'s std::atomic.",
        "Programs run at every syscall and wakeup of the machine, also for processes that are not watched.",
    ),
)

PROBE = Probe(
    name="locks",
    meaning="waits for locks in user space: which lock, how long, who held it, and the stack that waits",
    streams=(
        Stream(
            "lock_wait",
            "one row per wait that has ended, timed at its begin",
            columns={
                "duration_ns": Column("from the call to its return", "ns"),
                "address": _ADDRESS,
                "kind": _KIND,
                "ret": Column(
                    "what the call returned: 0 or more: woken; else why it did not wait on", codes=Codes.ERROR
                ),
                "has_timeout": Column("1 if the wait was limited in time"),
                "owner_tid": Column(
                    "thread that held the lock when the wait began, as its process numbers it; absent if unknown",
                    identity=True,
                ),
                "waker_pid": Column(f"process of the thread that ended the wait; {_WOKEN}", identity=True),
                "waker_tid": Column("thread that ended the wait, as seen on the host", identity=True),
                "waker_comm": Column("name of the thread that ended the wait"),
                "stack_id": _STACK_ID,
            },
            made=Made(resolved=_STACK),
            hidden=("has_owner", "has_waker"),
            null_unless={
                "owner_tid": "has_owner",
                **dict.fromkeys(("waker_pid", "waker_tid", "waker_comm"), "has_waker"),
            },
            failed="ret < 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "kind", "address"),
                        (Count(), Sum("duration_ns"), Quantiles("duration_ns")),
                        title="waits by lock",
                    ),
                    Table(
                        ("comm", "kind", "waker_comm"),
                        (Count(), Sum("duration_ns")),
                        where="waker_tid is not null",
                        title="who ended the waits",
                    ),
                    Table(
                        ("comm", "kind", "stack"),
                        (Count(), Sum("duration_ns")),
                        where="stack is not null",
                        title="stacks that wait",
                    ),
                ),
                line=("tid", "kind", "address", "duration_ns", "ret", "owner_tid", "waker_comm"),
                timeline=Timeline(slices=(Slices(named=("kind", "address"), below="waits for locks", by_thread=""),)),
                flame=Flame(weight="duration_ns", below=("kind",), title="time waited for locks, by stack"),
            ),
            rollup=Rollup(by=("comm", "kind"), measured="duration_ns"),
        ),
        Stream(
            "lock_wait_summary",
            "waits that have ended, by process, lock and stack",
            columns={
                "address": _ADDRESS,
                "kind": _KIND,
                "stack_id": _STACK_ID,
                "count": Column("waits that ended in the interval"),
                "failed": Column("those that nobody ended: timeouts, signals, and values that had changed before"),
                "total_ns": Column("sum of their durations", "ns"),
                "wait": Column("histogram of their durations, in powers of two", "ns"),
            },
            summary=Summary(),
            made=Made(resolved=_STACK),
            failed="failed > 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "kind", "address"),
                        (Sum("count"), Sum("failed"), Sum("total_ns"), Quantiles("wait")),
                        title="waits by lock",
                    ),
                    Table(
                        ("comm", "kind", "stack"),
                        (Sum("count"), Sum("total_ns"), Quantiles("wait")),
                        where="stack is not null",
                        title="stacks that wait",
                    ),
                ),
                flame=Flame(weight="total_ns", below=("kind",), title="time waited for locks, by stack"),
            ),
            rollup=Rollup(by=("comm", "kind"), count="count", measured="total_ns", histogram="wait"),
        ),
    ),
    ring_bytes=4 << 20,
    alternatives=(Alternative("tp_btf: sys_enter, sys_exit, sched_waking", ("lock_exit", "lock_wake", "lock_enter")),),
    extra_options=(
        Option("stacks", "boolean", True, "record the call stacks that wait"),
        Option(
            "min_duration_ns",
            "integer",
            0,
            "record only waits that last at least this long, in ns; events only",
            minimum=0,
        ),
    ),
    constants=lambda options: {"keep_stacks": options["stacks"], "min_ns": options["min_duration_ns"]},
    hooks=lambda options: stacks.UNWOUND_HOOKS if options["stacks"] else Hooks(),
    kept_by_process=stacks.MAPS,
    resolver=_resolver,
    resolves=lambda options: bool(options["stacks"]),
    guide=GUIDE,
)
