"""Memory: what processes have of it, page faults, growth of address spaces by stack, stalls, and kills."""

import mmap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scope_bpf.catalogue import stacks
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Made, Settled, Stream, Summary
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Counter, Flame, Latest, Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, LatestRows, Quantiles, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver


def _resolver(object_: "BpfObject", modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.code.stacks import StackResolver

    return StackResolver(object_, modules, all_processes=True)


GUIDE = Guide(
    examples=(
        Example("scope trace memory -- ls /", "page faults of a command, and what it maps"),
        Example(
            "scope trace memory --flamegraph /tmp/growth.svg -- ls /",
            "a flame graph of the code that makes the address space grow",
        ),
        Example("scope trace memory -o stacks=false --duration 1", "the whole machine: faults, stalls and kills"),
    ),
    notes=(
        "`memory_faults` counts the page faults that the kernel has served: minor ones, whose page was in memory or is "
        "new, and major ones, whose page was read from a disk. `by_read` to `by_kernel` are the same faults by what "
        "the program did (x86-64); `by_copy` are writes to pages shared with another process or file.",
        "`memory_process` has what each process has in memory and in swap space, read once an interval: a row whenever "
        "that has changed, at least one a minute, and one at the process's end.",
        "`mapping` has a row per mmap, munmap, brk and mremap. `grown_bytes` is the address space's growth: memory is "
        "only used once it is touched.",
        "`reclaim` has a row per stall: a thread that needs memory makes room itself, because the machine has too "
        "little (machine), its cgroup is at its limit (cgroup), or memory is not in one piece (compaction: a row per "
        "zone of memory). A process that tells the kernel to do it, by `memory.reclaim` or `compact_memory`, has rows, "
        "too.",
        "`oom_kill` names the victim, which thread wanted memory, and which cgroup was at its limit.",
    ),
    limits=(
        "If threads of a process map memory at the same time, the growth may be put down to either.",
        "`memory_process` has the kernel's own counters, to which a CPU adds 32 pages or more at a time (before Linux "
        "6.2, a thread 64): a figure may be off by as many per CPU.",
        "Before Linux 6.16, the row at a process's end has what the last reading found.",
        "What an exec maps is not recorded. Calls of 32-bit programs have no stack.",
        "If the kernel's trace of kills tells the pid alone, as in Linux 6.7 without later fixes, and fentry is not "
        "allowed, kills are only counted: a note tells how many there were.",
        "Kills have the reason `machine` also if only the nodes that a cpuset or a memory policy allows had no memory "
        "left, or if a cgroup of version 1 was at its limit of memory and swap together.",
        "A process beyond its cgroup's `memory.high` reclaims, and then is put to sleep: that sleep is in no stall.",
        "A page fault of a watched process takes about 0.5 µs longer. Reading the memory of 1,000 processes once a "
        "second takes 4 to 5% of one CPU; `interval_ms` says how often.",
    ),
)

_CAUSES = {
    "by_read": "reads",
    "by_write": "writes to new pages",
    "by_copy": "writes to pages that are shared, or only mapped for reading",
    "by_exec": "executed code",
    "by_kernel": "the kernel, within the process's calls",
}
_IN_MEMORY = ("anon_bytes", "file_bytes", "shared_bytes", "swap_bytes")
_HOOKS = ("memory_exit", "mapping_exit", "mapping_enter", "memory_fault_user")
_STALLS = (
    *("reclaim_ends", "reclaim_begins", "reclaim_of_cgroup_ends", "reclaim_of_cgroup_begins"),
    *("compaction_ends", "compaction_goes_on", "compaction_begins"),
)
_SERVED = {
    "memory_fault_minor": "PERF_COUNT_SW_PAGE_FAULTS_MIN",
    "memory_fault_major": "PERF_COUNT_SW_PAGE_FAULTS_MAJ",
}

PROBE = Probe(
    name="memory",
    meaning="memory of processes, page faults, growth of address spaces by stack, stalls for lack of memory, and kills",
    streams=(
        Stream(
            "mapping",
            "one row per finished call that changes the address space",
            columns={
                "call": Column("mmap, munmap, brk or mremap"),
                "grown_bytes": Column("growth of the address space; below 0: it shrank", "bytes"),
                "length_bytes": Column("length that the call was given; 0 for brk", "bytes"),
                "address": Column("begin of the memory; for brk, the new end of the heap", hex=True, identity=True),
                "total_bytes": Column("size of the address space afterwards", "bytes"),
                "error": Column("why the call failed; 0: it did not", codes=Codes.ERROR),
                "prot": Column("PROT_ bits of mmap", hex=True),
                "flags": Column("MAP_ bits of mmap", hex=True),
                "anonymous": Column("1 if mmap maps no file"),
                "stack_id": Column(
                    "tells apart stacks with equal text: they differ in a line of the same function",
                    hex=True,
                    identity=True,
                ),
            },
            made=Made(resolved={"stack": stacks.STACK}),
            hidden=("is_map",),
            null_unless=dict.fromkeys(("prot", "flags", "anonymous"), "is_map"),
            failed="error < 0",
            shown=Shown(
                tables=(
                    Table(("comm", "pid", "call"), (Count(), Sum("grown_bytes")), title="calls that map memory"),
                    Table(
                        ("comm", "call", "stack"),
                        (Count(), Sum("grown_bytes")),
                        where="stack is not null",
                        title="growth of address spaces, by stack",
                    ),
                ),
                line=("call", "grown_bytes", "total_bytes", "address", "error"),
                timeline=Timeline(counters=(Counter("total_bytes"),)),
                flame=Flame(
                    weight="grown_bytes",
                    below=("call",),
                    where="grown_bytes > 0",
                    title="growth of address spaces, by stack",
                ),
            ),
            rollup=Rollup(by=("comm", "call")),
        ),
        Stream(
            "reclaim",
            "one row per stall of a thread that makes room for memory itself, timed at its begin",
            columns={
                "duration_ns": Column("how long the thread was held up", "ns"),
                "kind": Column("machine, cgroup or compaction"),
                "reclaimed_bytes": Column("memory that it got back; absent for compaction", "bytes"),
                "order": Column(
                    "it wants 2^order pages in one piece; absent if it only told the kernel to compact memory"
                ),
            },
            hidden=("has_order", "has_reclaimed"),
            null_unless={"order": "has_order", "reclaimed_bytes": "has_reclaimed"},
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "kind"),
                        (Count(), Sum("reclaimed_bytes"), Sum("duration_ns"), Quantiles("duration_ns")),
                        title="stalls for lack of memory",
                    ),
                ),
                line=("tid", "kind", "duration_ns", "reclaimed_bytes", "order"),
                timeline=Timeline(slices=(Slices(named=("kind",), below="lack of memory", by_thread=""),)),
            ),
            rollup=Rollup(by=("comm", "kind"), measured="duration_ns"),
        ),
        Stream(
            "oom_kill",
            "one row per process that the kernel kills for its memory; pid, comm and so on are the victim's",
            columns={
                "reason": Column("cgroup: one was at its limit; machine: there was no memory left"),
                "total_bytes": Column("size of the victim's address space", "bytes"),
                "limit_bytes": Column("limit of that cgroup; absent if the machine was the reason", "bytes"),
                "usage_bytes": Column("memory of that cgroup", "bytes"),
                "limited_cgroup_id": Column("id of that cgroup", identity=True),
                "score_adj": Column("oom_score_adj of the victim"),
                "trigger_pid": Column("process that wanted memory", identity=True),
                "trigger_tid": Column("thread that wanted memory", identity=True),
                "trigger_comm": Column("name of that thread"),
            },
            null_unless=dict.fromkeys(("limit_bytes", "usage_bytes", "limited_cgroup_id"), "limit_bytes"),
            shown=Shown(
                tables=(
                    LatestRows(
                        ("pid", "comm", "reason", "total_bytes", "limit_bytes", "trigger_comm"),
                        title="processes killed for their memory",
                    ),
                ),
                line=("reason", "total_bytes", "limit_bytes", "trigger_pid", "trigger_comm"),
                timeline=Timeline(slices=(Slices(text="killed for its memory", lasting="", below="lack of memory"),)),
            ),
        ),
        Stream(
            "memory_faults",
            "page faults that the kernel has served, by process, since recording began",
            columns={
                "minor": Column("faults whose page was in memory, or is new"),
                "major": Column("faults whose page was read from a disk"),
                **{name: Column(f"faults by {meaning}") for name, meaning in _CAUSES.items()},
                "ended": Column("1 in the last row of a process"),
            },
            summary=Summary(gauge=True),
            shown=Shown(
                tables=(Table(("comm", "pid"), (*map(Sum, _CAUSES), Sum("major"), Sum("minor")), title="page faults"),),
                timeline=Timeline(counters=(Counter("minor"), Counter("major"))),
            ),
            latest=Latest(key=(), by=("comm",), totals=("minor", "major", *_CAUSES), ended="ended"),
        ),
        Stream(
            "memory_process",
            "what a process has in memory and in swap space now",
            columns={
                "anon_bytes": Column("memory that is of no file: heaps, stacks, ...", "bytes"),
                "file_bytes": Column("memory with contents of files that it has mapped", "bytes"),
                "shared_bytes": Column("memory that it shares: of tmpfs, and shared without a file", "bytes"),
                "swap_bytes": Column("what of it is in swap space", "bytes"),
                "peak_bytes": Column("most that was in memory at once since its last exec", "bytes"),
                "ended": Column("1 in the last row of a process"),
            },
            summary=Summary(gauge=True),
            settled=Settled("memory_visit"),
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid"), (*map(Sum, ("peak_bytes", *_IN_MEMORY[::-1])),), title="memory of processes"
                    ),
                ),
                line=(*_IN_MEMORY, "peak_bytes"),
                timeline=Timeline(counters=tuple(Counter(name, zero_where="ended != 0") for name in _IN_MEMORY)),
            ),
            latest=Latest(key=(), by=("comm",), totals=_IN_MEMORY, ended="ended"),
        ),
    ),
    ring_bytes=2 << 20,
    alternatives=(
        Alternative(
            "tp_btf: sys_enter, sys_exit, sched_process_exit, page_fault_user, mm_*, mark_victim; software events",
            (*_HOOKS, *_STALLS, "oom_killed"),
            software_events=_SERVED,
        ),
        Alternative(
            "tp_btf: sys_enter, sys_exit, sched_process_exit, page_fault_user, mm_*; fentry: mark_oom_victim; "
            "software events",
            (*_HOOKS, *_STALLS, "oom_kills"),
            software_events=_SERVED,
        ),
        Alternative(
            "tp_btf: sys_enter, sys_exit, sched_process_exit, page_fault_user, mm_*; software events",
            (*_HOOKS, *_STALLS, "oom_kill_unseen"),
            software_events=_SERVED,
            unseen={"kills": "kills for lack of memory"},
        ),
    ),
    extra_options=(Option("stacks", "boolean", True, "record the call stacks that map memory"),),
    constants=lambda options: {
        "keep_stacks": options["stacks"],
        "scope_page_shift": mmap.PAGESIZE.bit_length() - 1,
    },
    hooks=lambda options: stacks.UNWOUND_HOOKS if options["stacks"] else Hooks(),
    kept_by_process=stacks.MAPS,
    resolver=_resolver,
    resolves=lambda options: bool(options["stacks"]),
    guide=GUIDE,
)
