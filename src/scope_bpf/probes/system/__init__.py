"""The machine: processors, load, pressure, memory, disks, network interfaces, and what processes and cgroups use."""

import pyarrow as pa

from scope_bpf.catalogue.probe import Probe, Sampler
from scope_bpf.catalogue.stream import PROCESS, Derived, Made, Stream
from scope_bpf.probes.system.guide import GUIDE
from scope_catalogue.shown import Counter, Shown, Timeline
from scope_catalogue.stream import OF_PROCESS, Column
from scope_catalogue.tables import LatestRows

_NAME = pa.dictionary(pa.int32(), pa.string())
_INTERVAL = {
    "interval_ns": Derived(Column("time since the row before; 0: it is the first", "ns", identity=True), pa.uint64())
}


def _sampler() -> Sampler:
    from scope_bpf.probes.system.proc import SystemSampler

    return SystemSampler()


def _percents(meanings: dict[str, str]) -> dict[str, Derived]:
    return {f"{name}_percent": Derived(Column(meaning, "%"), pa.float64()) for name, meaning in meanings.items()}


def _counts(meanings: dict[str, str], unit: str = "") -> dict[str, Derived]:
    return {name: Derived(Column(meaning, unit), pa.int64()) for name, meaning in meanings.items()}


_SYSTEM = Stream(
    "system",
    "what the machine does as a whole; what the kernel does not tell is absent",
    columns={},
    sampled=True,
    made=Made(
        derived=_INTERVAL
        | _percents(
            {
                "user": "share of all CPUs' time in programs",
                "nice": "share in programs with a low priority",
                "system": "share in the kernel",
                "idle": "share in which nothing ran",
                "iowait": "share in which nothing ran, while a thread waited for a disk",
                "irq": "share in interrupts",
                "softirq": "share in what interrupts had put off",
                "steal": "share that the host of this virtual machine took",
                "cpu_pressure": "share of the interval in which a thread waited for a CPU",
                "memory_pressure": "share in which a thread waited for memory",
                "memory_stalled": "share in which all threads waited for memory",
                "io_pressure": "share in which a thread waited for a disk",
                "io_stalled": "share in which all threads waited for a disk",
            }
        )
        | {
            name: Derived(Column(f"mean number of runnable and blocked threads in {minutes}"), pa.float64())
            for name, minutes in (("load_1", "a minute"), ("load_5", "5 minutes"), ("load_15", "15 minutes"))
        }
        | _counts(
            {
                "cpus": "CPUs that are on",
                "runnable": "threads that run or could run",
                "threads": "all threads",
                "context_switches": "switches of threads",
                "major_faults": "page faults that read from a disk",
            }
        )
        | _counts(
            {
                "memory_total_bytes": "memory of the machine",
                "memory_available_bytes": "memory that programs could get without swapping",
                "memory_cached_bytes": "memory with contents of files",
                "memory_dirty_bytes": "memory that is to be written to disks",
                "swap_total_bytes": "swap space",
                "swap_free_bytes": "unused swap space",
                "swapped_in_bytes": "memory read back from swap space",
                "swapped_out_bytes": "memory written to swap space",
            },
            "bytes",
        )
    ),
    shown=Shown(
        tables=(
            LatestRows(
                ("user_percent", "system_percent", "iowait_percent", "load_1", "memory_available_bytes"),
                title="the machine",
            ),
            LatestRows(
                ("cpu_pressure_percent", "memory_pressure_percent", "io_pressure_percent"), title="waits for resources"
            ),
        ),
        line=("user_percent", "system_percent", "iowait_percent", "load_1", "memory_available_bytes"),
        timeline=Timeline(
            counters=tuple(
                Counter(name)
                for name in (
                    *("user_percent", "system_percent", "iowait_percent", "cpu_pressure_percent"),
                    *("memory_pressure_percent", "io_pressure_percent", "memory_available_bytes"),
                )
            )
        ),
    ),
)

_DISK = Stream(
    "system_disk",
    "what a disk or partition did in the interval",
    columns={},
    sampled=True,
    made=Made(
        derived=_INTERVAL
        | {"disk": Derived(Column("name of the disk or partition, such as nvme0n1"), _NAME)}
        | _counts({"reads": "reads that ended", "writes": "writes that ended", "in_flight": "requests under way now"})
        | _counts({"read_bytes": "read", "written_bytes": "written"}, "bytes")
        | _percents({"busy": "share of the interval in which it had requests"})
    ),
    shown=Shown(
        tables=(LatestRows(("disk", "reads", "read_bytes", "writes", "written_bytes", "busy_percent")),),
        line=("disk", "reads", "read_bytes", "writes", "written_bytes", "busy_percent"),
        timeline=Timeline(
            counters=tuple(Counter(name, by=("disk",)) for name in ("read_bytes", "written_bytes", "busy_percent"))
        ),
    ),
)

_NETWORK = Stream(
    "system_network",
    "what went through a network interface in the interval",
    columns={},
    sampled=True,
    made=Made(
        derived=_INTERVAL
        | {"interface": Derived(Column("name of the interface, such as eth0"), _NAME)}
        | _counts({"received_bytes": "received", "sent_bytes": "sent"}, "bytes")
        | _counts(
            {
                "received_packets": "packets received",
                "receive_errors": "packets received with an error",
                "receive_drops": "received packets that were dropped",
                "sent_packets": "packets sent",
                "send_errors": "packets that could not be sent because of an error",
                "send_drops": "packets that were dropped before they were sent",
            }
        )
    ),
    shown=Shown(
        tables=(LatestRows(("interface", "received_bytes", "sent_bytes", "receive_drops", "send_drops")),),
        line=("interface", "received_bytes", "sent_bytes", "receive_drops", "send_drops"),
        timeline=Timeline(
            counters=tuple(Counter(name, by=("interface",)) for name in ("received_bytes", "sent_bytes"))
        ),
    ),
)

_PROCESS = Stream(
    "system_process",
    "what a process used, if it did anything since the last reading",
    columns={},
    sampled=True,
    made=Made(
        derived=_INTERVAL
        | {
            "start_ns": Derived(
                Column("when the process started, since boot, rounded to 10 ms", "ns", identity=True), pa.uint64()
            ),
            "pid": Derived(PROCESS["pid"], pa.int32()),
            "uid": Derived(PROCESS["uid"], pa.uint32()),
            "comm": Derived(PROCESS["comm"], _NAME),
        }
        | _percents({"cpu": "time on CPUs, as a share of the interval: above 100 if several threads ran at once"})
        | _counts(
            {"rss_bytes": "memory in use, with shared pages", "virtual_bytes": "size of the address space"}, "bytes"
        )
        | _counts({"threads": "threads of the process"})
        | _counts(
            {
                "disk_read_bytes": "read from disks since the process started",
                "disk_written_bytes": "written to disks since the process started",
            },
            "bytes",
        )
    ),
    shown=Shown(
        tables=(LatestRows(("pid", "comm", "cpu_percent", "rss_bytes", "threads", "disk_read_bytes")),),
        line=("pid", "comm", "cpu_percent", "rss_bytes", "threads", "disk_read_bytes", "disk_written_bytes"),
        timeline=Timeline(counters=(Counter("cpu_percent"), Counter("rss_bytes"))),
    ),
)

_CGROUP = Stream(
    "system_cgroup",
    "what a cgroup used with those below it, if it did anything since the last reading; "
    "what the kernel does not tell is absent",
    columns={},
    sampled=True,
    made=Made(
        derived=_INTERVAL
        | {
            "cgroup_id": Derived(Column("id of the cgroup v2, as events have it", identity=True), pa.uint64()),
            "cgroup": Derived(Column("path of the cgroup"), _NAME),
            "container": Derived(
                Column("name of the container, or the first 12 characters of its id if the name is not known"), _NAME
            ),
            **{name: Derived(OF_PROCESS[name], _NAME) for name in ("image", "pod", "namespace")},
            "unit": Derived(Column("systemd unit that the cgroup is, or is in"), _NAME),
        }
        | _percents(
            {
                "cpu": "time on CPUs, as a share of the interval: above 100 if several threads ran at once",
                "user": "time in programs, likewise",
                "system": "time in the kernel, likewise",
                "throttled": "time of each CPU in which the cgroup's own limit kept threads from running, likewise",
                "cpu_pressure": "share of the interval in which a thread waited for a CPU",
                "cpu_stalled": "share in which all threads waited for a CPU",
                "memory_pressure": "share in which a thread waited for memory",
                "memory_stalled": "share in which all threads waited for memory",
                "io_pressure": "share in which a thread waited for a disk",
                "io_stalled": "share in which all threads waited for a disk",
            }
        )
        | _counts(
            {
                "limited_periods": "periods of the cgroup's own CPU limit in which threads ran",
                "throttled_periods": "those of them in which the limit was reached",
            }
        )
        | _counts(
            {
                "memory_bytes": "memory in use, with cached contents of files",
                "memory_peak_bytes": "most memory that was in use since the cgroup was made, or since it was reset",
                "memory_limit_bytes": "the cgroup's own limit of memory; absent: it has none",
                "anon_bytes": "memory of programs that is not of files",
                "file_bytes": "memory with contents of files, and in tmpfs",
                "kernel_bytes": "memory that the kernel uses for it",
                "swap_bytes": "swap space in use",
            },
            "bytes",
        )
        | _counts(
            {
                "memory_low_events": "times that memory was taken although it was below `memory.low`",
                "memory_high_events": "times that threads were slowed because memory was above `memory.high`",
                "memory_max_events": "times that memory was about to go above its limit",
                "oom_events": "times that memory was at its limit and an allocation was about to fail",
                "oom_kills": "processes that were killed because memory was short",
                "oom_group_kills": "times that all processes of a cgroup were killed because memory was short",
                "threads": "threads now",
            }
        )
        | _counts({"reads": "reads of disks", "writes": "writes to disks"})
        | _counts({"read_bytes": "read from disks", "written_bytes": "written to disks"}, "bytes")
    ),
    shown=Shown(
        tables=(
            LatestRows(
                ("cgroup", "container", "cpu_percent", "memory_bytes", "read_bytes", "written_bytes", "oom_kills")
            ),
        ),
        line=("cpu_percent", "memory_bytes", "read_bytes", "written_bytes", "oom_kills", "container", "cgroup"),
        timeline=Timeline(
            counters=tuple(
                Counter(name, by=("cgroup",))
                for name in ("cpu_percent", "memory_bytes", "read_bytes", "written_bytes", "throttled_percent")
            )
        ),
    ),
)

PROBE = Probe(
    name="system",
    meaning="the machine: processors by state, load, pressure, memory, disks, network interfaces, processes, cgroups",
    streams=(_SYSTEM, _DISK, _NETWORK, _PROCESS, _CGROUP),
    sampler=_sampler,
    guide=GUIDE,
)
