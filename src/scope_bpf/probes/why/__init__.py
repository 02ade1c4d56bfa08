"""Where the wall time of threads goes: on a CPU, waiting for a CPU, or blocked, and in which call."""

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import FILE_PATH, HEADER, Derived, Made, Names, Rows, Settled, Stream, Summary
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.syscalls import NAMES, NUMBERS_32, by_number, place_in_names
from scope_bpf.probes.why.guide import GUIDE
from scope_catalogue.options import Option
from scope_catalogue.shown import Flame, Rollup, Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import Quantiles, Share, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_TEXT = pa.dictionary(pa.int32(), pa.string())

# Calls that may wait for the file of their first argument, a descriptor.
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
    0: "kernel object",  # epoll, eventfd, timerfd and io_uring have inodes without a type
}


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = enum_values(PROBE.btf, "why_file")
    calls = dict.fromkeys(_ON_A_DESCRIPTOR, kinds["WHY_FILE_OF_FD"]) | dict.fromkeys(_POLLS, kinds["WHY_FILE_POLLED"])
    return {
        "files_of_calls": by_number(calls),
        "files_of_calls_32": by_number(calls, NUMBERS_32),
        "keep_stacks": options["stacks"],
    }


def _resolver(object_: "BpfObject", modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.code.stacks import StackResolver

    return StackResolver(object_, modules)


def _texts(values: Rows, names: Mapping[int, str], absent: Rows) -> pa.DictionaryArray:
    """The name of each value; null for values without a name, and where `absent` is true."""
    present, places = np.unique(values, return_inverse=True)
    found = [names.get(int(value)) for value in present]
    absent = absent | np.array([name is None for name in found], bool)[places]
    texts = pa.array([name or "" for name in found], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32), mask=absent), texts)


def _disk(device: int) -> str | None:
    """The name of the disk that a block device is, or is a partition of; None: it is no block device, or is gone."""
    folder = Path(f"/sys/dev/block/{device >> 20}:{device & 0xFFFFF}").resolve()
    if not folder.exists():
        return None
    return folder.parent.name if (folder / "partition").exists() else folder.name


def _derive(rows: Rows) -> dict[str, pa.Array]:
    reasons = enum_values(PROBE.btf, "why_blocked")
    names = NAMES | {
        reasons["WHY_IN_PAGE_FAULT"]: "page fault",
        reasons["WHY_IN_STOP"]: "stopped",
        reasons["WHY_IN_KERNEL"]: "kernel",
    }
    on_disks = np.isin(rows["file_type"], (stat.S_IFREG, stat.S_IFDIR)) & (rows["inode"] != 0)
    devices = map(int, np.unique(rows["device"][on_disks]))
    disks = {device: disk for device in devices if (disk := _disk(device))}
    runs = rows["part"] != enum_values(PROBE.btf, "why_part")["WHY_BLOCKED"]
    return {
        "blocked_in": _texts(place_in_names(rows), names, runs),
        "file_kind": _texts(rows["file_type"], _KINDS, rows["inode"] == 0),
        "disk": _texts(rows["device"], disks, ~on_disks),
    }


_SWITCHES = ("why_switch", "why_wakeup", "why_wakeup_new")
_FAULTS_SERVED = {
    "why_fault_minor": "PERF_COUNT_SW_PAGE_FAULTS_MIN",
    "why_fault_major": "PERF_COUNT_SW_PAGE_FAULTS_MAJ",
}

_SHARES = {
    "on_cpu_ns": Column("time on a CPU, as part of total_ns", "ns"),
    "run_queue_ns": Column("time runnable, waiting for a CPU, as part of total_ns", "ns"),
    "blocked_ns": Column("time blocked, as part of total_ns", "ns"),
}
_PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns")
_BY_THREAD = Table(
    ("comm", "pid", "thread_comm", "tid"),
    (Sum("total_ns"), *map(Sum, _PARTS), *map(Share, _PARTS)),
    ranked_by=("total_ns",),
    title="wall time by thread",
)

_DERIVED = {
    "blocked_in": Derived(
        Column(
            "if blocked: the syscall; 'page fault': the kernel fetches a page; 'stopped': by a signal or a debugger; "
            "'kernel': outside of syscalls"
        ),
        _TEXT,
    ),
    "file_kind": Derived(
        Column("kind of that file: file, directory, pipe, socket, device, disk, kernel object"), _TEXT
    ),
    "disk": Derived(
        Column("of a file or directory: the disk of its file system; absent if that is not on one block device"), _TEXT
    ),
}
_RESOLVED = {
    "stack": Derived(
        Column(
            "with the option stacks: the user stack at which the thread blocked, outermost frame first; it begins with "
            "[cut] if the outermost frames are missing",
            stack=True,
        ),
        _TEXT,
    )
}

PROBE = Probe(
    name="why",
    meaning="wall time of each thread: on a CPU, waiting for a CPU, or blocked, and in which call; page faults",
    streams=(
        Stream(
            "blocked_file",
            "the path of a file for which threads wait, once per interval in which a summary counts it",
            columns=FILE_PATH,
            internal=True,
        ),
        Stream(
            "why_process_summary",
            "wall time by process: the sum over its threads",
            columns={"total_ns": Column("sum of the wall times of the process's threads", "ns"), **_SHARES},
            summary=Summary(adds_up="why_summary"),
            shown=Shown(
                tables=(
                    replace(_BY_THREAD, by=("comm", "pid"), title="wall time by process, summed over its threads"),
                ),
                line=("total_ns", *_PARTS),
            ),
            rollup=Rollup(measured="on_cpu_ns"),
        ),
        Stream(
            "why_summary",
            "wall time per thread and part; the rows of a thread add up to its wall time",
            columns={
                "tid": HEADER["tid"],
                "thread_comm": Column("name of the thread"),
                "part": Column("on_cpu; run_queue: runnable, waiting for a CPU; blocked"),
                "nr": Column(
                    "if blocked: number of the syscall, of a 32-bit call from another table; negative outside of "
                    "syscalls, see blocked_in"
                ),
                "inode": Column(
                    "inode number of the file that the syscall waits for; absent if it waits for no file", identity=True
                ),
                "device": Column("device number of that file's file system: major << 20 | minor", identity=True),
                "file_type": Column("S_IFMT bits of that file", hex=True),
                "remote": Column("address of the peer, if that file is a connected socket of the internet"),
                "remote_port": Column("port of that peer", identity=True),
                "count": Column("how often the part ended in the interval"),
                "total_ns": Column("time in this part during the interval, even if the part has not ended", "ns"),
                **_SHARES,
                "duration": Column("histogram of the parts' whole durations, in powers of two", "ns"),
            },
            summary=Summary(),
            made=Made(derived=_DERIVED, derive=_derive, resolved=_RESOLVED),
            hidden=("compat", "stack_id"),
            null_unless={
                "nr": "blocked_ns",
                **dict.fromkeys(("inode", "device", "file_type"), "inode"),
                "remote_port": "remote_port",
            },
            names=Names(
                "blocked_file",
                ("device", "inode"),
                "path",
                Column(
                    "absolute path of that file, with ... in place of a beginning that was cut; absent for files "
                    "without a path, such as pipes"
                ),
            ),
            settled=Settled("why_settle"),
            shown=Shown(
                tables=(
                    _BY_THREAD,
                    Table(
                        ("comm", "blocked_in"),
                        (Sum("count"), Sum("blocked_ns"), Quantiles("duration")),
                        where="blocked_ns > 0",
                        title="calls in which programs are blocked",
                    ),
                    Table(
                        ("thread_comm", "tid", "blocked_in", "file_kind", "path"),
                        (Sum("count"), Sum("blocked_ns"), Quantiles("duration")),
                        where="blocked_ns > 0",
                        title="calls in which threads are blocked, by file",
                    ),
                    Table(
                        ("thread_comm", "tid", "blocked_in", "remote", "remote_port"),
                        (Sum("count"), Sum("blocked_ns"), Quantiles("duration")),
                        where="remote is not null",
                        title="calls in which threads are blocked by peers",
                    ),
                    Table(
                        ("comm", "blocked_in", "disk"),
                        (Sum("count"), Sum("blocked_ns"), Quantiles("duration")),
                        where="disk is not null",
                        title="calls in which programs are blocked by files of disks",
                    ),
                    Table(
                        ("comm", "blocked_in", "stack"),
                        (Sum("count"), Sum("blocked_ns")),
                        where="stack is not null",
                        title="stacks of blocked threads",
                    ),
                ),
                line=("tid", "part", "total_ns", "count", "blocked_in", "file_kind", "path"),
                flame=Flame(weight="blocked_ns", below=("blocked_in",), title="time blocked, by stack"),
            ),
            rollup=Rollup(by=("comm", "part", "blocked_in"), count="count", measured="total_ns", histogram="duration"),
        ),
        Stream(
            "page_fault_summary",
            "page faults by thread; their time is part of the wall time, on a CPU or blocked: do not add it",
            columns={
                "tid": HEADER["tid"],
                "thread_comm": Column("name of the thread"),
                "kind": Column("minor: the page was in memory, or is new; major: the page was read from disk"),
                "count": Column("faults that the kernel served"),
                "total_ns": Column("sum of the faults' durations", "ns"),
                "duration": Column("histogram of the faults' durations, in powers of two", "ns"),
            },
            summary=Summary(),
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "kind"),
                        (Sum("count"), Sum("total_ns"), Quantiles("duration")),
                        title="page faults",
                    ),
                ),
                line=("tid", "kind", "count", "total_ns"),
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
    extra_options=(Option("stacks", "boolean", False, "record the user stacks at which threads block"),),
    constants=_constants,
    hooks=lambda options: stacks.HOOKS if options["stacks"] else Hooks(),
    kept_by_process=stacks.MAPS,
    resolver=_resolver,
    resolves=lambda options: bool(options["stacks"]),
    guide=GUIDE,
)
