"""Where the wall time of programs goes: on a CPU, waiting for one, or blocked, and in what."""

import stat
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.options import Option
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Live, Rollup
from scope_bpf.catalogue.stream import Column, Derived, Mode, Names, Rows, Stream
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.syscalls import TABLE, by_number

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_TEXT = pa.dictionary(pa.int32(), pa.string())

# Calls that may block on the file that their first argument is a descriptor of.
_ON_A_DESCRIPTOR = (
    *("read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2"),
    *("recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4", "connect", "shutdown"),
    *("epoll_wait", "epoll_pwait", "epoll_pwait2", "ioctl", "fcntl", "flock", "close"),
    *("fsync", "fdatasync", "sync_file_range", "syncfs", "ftruncate", "fallocate", "fadvise64", "readahead"),
    *("getdents", "getdents64", "fstat", "fchmod", "fchown", "fstatfs", "sendfile", "splice", "tee", "vmsplice"),
    *("copy_file_range", "io_uring_enter", "mq_timedsend", "mq_timedreceive"),
)
_POLLS = ("poll", "ppoll")

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "disk",
    0: "kernel object",  # of an inode that is of no type: epoll, eventfd, timerfd, io_uring
}


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = enum_values(PROBE.btf, "why_file")
    calls = dict.fromkeys(_ON_A_DESCRIPTOR, kinds["WHY_FILE_OF_FD"]) | dict.fromkeys(_POLLS, kinds["WHY_FILE_POLLED"])
    return {"files_of_calls": by_number(calls), "keep_stacks": options["stacks"]}


def _resolver(object_: "BpfObject", modules: "Modules") -> "Resolver":
    from scope_bpf.code.stacks import StackResolver

    return StackResolver(object_, modules)


def _texts(values: Rows, names: Mapping[int, str], absent: Rows) -> pa.DictionaryArray:
    """The name of each value; of those without one, or that are absent, nothing."""
    present, places = np.unique(values, return_inverse=True)
    found = [names.get(int(value)) for value in present]
    absent = absent | np.array([name is None for name in found], bool)[places]
    texts = pa.array([name or "" for name in found], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32), mask=absent), texts)


def _derive(rows: Rows) -> dict[str, pa.Array]:
    reasons = enum_values(PROBE.btf, "why_blocked")
    names = dict(TABLE) | {
        reasons["WHY_IN_PAGE_FAULT"]: "page fault",
        reasons["WHY_IN_STOP"]: "stopped",
        reasons["WHY_IN_KERNEL"]: "kernel",
    }
    runs = rows["part"] != enum_values(PROBE.btf, "why_part")["WHY_BLOCKED"]
    return {
        "blocked_in": _texts(rows["nr"], names, runs | (rows["compat"] != 0)),
        "file_kind": _texts(rows["file_type"], _KINDS, rows["inode"] == 0),
    }


_SWITCHES = ("why_switch", "why_wakeup", "why_wakeup_new")
_FAULTS_SERVED = {
    "why_fault_minor": "PERF_COUNT_SW_PAGE_FAULTS_MIN",
    "why_fault_major": "PERF_COUNT_SW_PAGE_FAULTS_MAJ",
}

_SHARES = {
    "on_cpu_ns": Column("of this time: on a CPU", "ns"),
    "run_queue_ns": Column("of this time: able to run, and waiting for a CPU", "ns"),
    "blocked_ns": Column("of this time: blocked", "ns"),
}
_PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns")
_BY_THREAD = Live(
    by=("comm", "pid", "thread_comm", "tid"),
    totals=("total_ns", *_PARTS),
    ranked_by=("total_ns",),
    parts=_PARTS,
    title="wall time by thread",
)
_INODE = Column("number of the file in its file system")
_DEVICE = Column("the file system: major << 20 | minor")

PROBE = Probe(
    name="why",
    meaning="where the wall time of each thread goes: on a CPU, waiting for one, or blocked and in what; page faults",
    streams=(
        Stream(
            "blocked_file",
            "the path of a file that a thread is blocked at, when a summary first meets it in an interval",
            columns={
                "path": Column("absolute"),
                "inode": _INODE,
                "device": _DEVICE,
                "path_truncated": Column("1 if the path lacks its beginning"),
            },
            internal=True,
        ),
        Stream(
            "why_process_summary",
            "wall time by process: that of its threads added up",
            columns={"total_ns": Column("wall time of the process's threads, added up", "ns"), **_SHARES},
            mode=Mode.SUMMARY,
            line=("total_ns", *_PARTS),
            live=replace(_BY_THREAD, by=("comm", "pid"), title="wall time by process, its threads added up"),
            adds_up="why_summary",
            rollup=Rollup(measured="on_cpu_ns"),
        ),
        Stream(
            "why_summary",
            "wall time by thread and part: the rows of a thread add up to its wall time",
            columns={
                "tid": Column("thread"),
                "thread_comm": Column("name of the thread"),
                "part": Column("on_cpu; run_queue: able to run, and waiting for a CPU; blocked"),
                "nr": Column("number of the syscall that it is blocked in; below 0: in none, see blocked_in"),
                "inode": Column("number, in its file system, of the file that the syscall waits at; absent if at none"),
                "device": Column("the file system of that file: major << 20 | minor"),
                "file_type": Column("S_IFMT bits of that file", hex=True),
                "count": Column("how often the part ended in the interval; it may have begun earlier"),
                "total_ns": Column("time in this part in the interval, also if the part has not ended", "ns"),
                **_SHARES,
                "duration": Column("how long the thread was in the part each time, by powers of two", "ns"),
            },
            mode=Mode.SUMMARY,
            derived={
                "blocked_in": Derived(
                    Column(
                        "if blocked: the syscall; 'page fault': a page had to be brought in; 'stopped': by a signal or "
                        "a debugger; 'kernel': in no syscall; absent for 32-bit calls"
                    ),
                    _TEXT,
                ),
                "file_kind": Derived(
                    Column("what the syscall waits at: file, directory, pipe, socket, device, disk, kernel object"),
                    _TEXT,
                ),
            },
            derive=_derive,
            resolved={
                "stack": Derived(
                    Column(
                        "with the option stacks: who called where it was blocked, outermost first, by frame pointers; "
                        "[cut] first if there were more",
                        stack=True,
                    ),
                    _TEXT,
                )
            },
            hidden=("compat", "stack_id"),
            null_unless={"nr": "blocked_ns", **dict.fromkeys(("inode", "device", "file_type"), "inode")},
            names=Names(
                "blocked_file",
                ("device", "inode"),
                "path",
                Column("absolute path of that file; absent for what is in no directory, such as pipes"),
            ),
            settled_by="why_settle",
            line=("tid", "part", "total_ns", "count", "blocked_in", "file_kind", "path"),
            live=_BY_THREAD,
            also_live=(
                Live(
                    by=("comm", "blocked_in"),
                    totals=("count", "blocked_ns"),
                    quantiles=("duration",),
                    only="blocked_ns",
                    title="what programs are blocked in",
                ),
                Live(
                    by=("thread_comm", "tid", "blocked_in", "file_kind", "path"),
                    totals=("count", "blocked_ns"),
                    quantiles=("duration",),
                    only="blocked_ns",
                    title="what threads are blocked in, by file",
                ),
                Live(
                    by=("comm", "blocked_in", "stack"),
                    totals=("count", "blocked_ns"),
                    only="stack",
                    title="stacks that are blocked",
                ),
            ),
            rollup=Rollup(by=("comm", "part", "blocked_in"), count="count", measured="total_ns", histogram="duration"),
        ),
        Stream(
            "page_fault_summary",
            "page faults by thread; do not add their time to the wall time, of which it is a part: on a CPU or blocked",
            columns={
                "tid": Column("thread"),
                "thread_comm": Column("name of the thread"),
                "kind": Column("minor: the page was in memory, or is new; major: it was read from a disk"),
                "count": Column("faults that the kernel served"),
                "total_ns": Column("time from the fault to its end, added up", "ns"),
                "duration": Column("the same times by powers of two", "ns"),
            },
            mode=Mode.SUMMARY,
            line=("tid", "kind", "count", "total_ns"),
            live=Live(
                by=("comm", "pid", "kind"), totals=("count", "total_ns"), quantiles=("duration",), title="page faults"
            ),
            rollup=Rollup(by=("comm", "kind"), count="count", measured="total_ns", histogram="duration"),
        ),
    ),
    alternatives=(
        Alternative(
            "tp_btf: sched_switch, sched_wakeup, sched_wakeup_new, page_fault_user, page_fault_kernel; software events",
            (*_SWITCHES, "why_fault_user", "why_fault_kernel"),
            software_events=_FAULTS_SERVED,
        ),
        Alternative(
            "tp_btf: sched_switch, sched_wakeup, sched_wakeup_new; software events",
            _SWITCHES,
            software_events=_FAULTS_SERVED | {"why_fault_counted": "PERF_COUNT_SW_PAGE_FAULTS"},
        ),
    ),
    extra_options=(Option("stacks", "boolean", False, "keep the stacks with which threads are blocked"),),
    constants=_constants,
    kept_by_process=("scope_stacks",),
    resolver=_resolver,
    resolves=lambda options: bool(options["stacks"]),
)
