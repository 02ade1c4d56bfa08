"""System calls, files and scheduling."""

from deploy.grafana.panels import Dashboard, Panel, wide
from deploy.grafana.queries import (
    ABOUT_RECENT,
    ANNOTATIONS,
    CONTAINERS,
    MACHINES,
    TASKS,
    comms,
    log,
    marked,
    mean,
    percentiles,
    recent,
    series,
    shares,
    totals,
)

_NANOSECONDS = dict.fromkeys(
    ("mean", "total", "duration_ns", "run_queue_ns", "on_cpu_ns", "off_cpu_ns", "read", "written"), "ns"
)

DASHBOARD = Dashboard(
    "scope-kernel",
    "System calls, files, scheduling",
    "What programs ask of the kernel, and how long they wait for it. From the probes syscalls, files, sched and span.",
    (
        (
            "System calls",
            (
                Panel("Share of system calls", "piechart", (shares("syscall", "name"),)),
                Panel("System calls", "timeseries", (series("syscall", "name"),), unit="cps", stacked=True),
                Panel("System calls", "table", (totals("syscall", "name"),), units=_NANOSECONDS),
                Panel("Duration of system calls", "timeseries", (percentiles("syscall"),), unit="ns"),
                Panel("Share of system calls, summary", "piechart", (shares("syscall_summary", "name"),)),
                Panel(
                    "System calls, summary",
                    "timeseries",
                    (series("syscall_summary", "name"),),
                    unit="cps",
                    stacked=True,
                ),
                wide(
                    Panel(
                        "Log of system calls",
                        "table",
                        (log("syscall", "tid, name, args, result, error, duration_ns"),),
                        ABOUT_RECENT,
                        units=_NANOSECONDS,
                    )
                ),
            ),
        ),
        (
            "Files",
            (
                Panel(
                    "Share of opened files",
                    "piechart",
                    (recent("open", f"coalesce({marked('open', 'path')}, '-') AS name, count(*) AS value", "1", "2"),),
                    ABOUT_RECENT,
                ),
                Panel("Opened files", "timeseries", (series("open", "comm"),), unit="cps"),
                Panel(
                    "Log of opened files",
                    "table",
                    (log("open", f"{marked('open', 'path')} AS path, flags, ret, duration_ns"),),
                    ABOUT_RECENT,
                    units=_NANOSECONDS,
                ),
                Panel(
                    "Reads and writes by file",
                    "table",
                    (
                        recent(
                            "file_summary",
                            "hostname, comm, path, sum(reads)::bigint AS reads, sum(read_bytes)::float8 AS read_bytes,"
                            " sum(read_ns)::float8 AS read, sum(writes)::bigint AS writes,"
                            " sum(write_bytes)::float8 AS write_bytes, sum(write_ns)::float8 AS written",
                            "hostname, comm, path",
                            "sum(read_ns + write_ns)",
                        ),
                    ),
                    ABOUT_RECENT,
                    units=_NANOSECONDS | {"read_bytes": "bytes", "write_bytes": "bytes"},
                ),
            ),
        ),
        (
            "Scheduling",
            (
                Panel("Switches", "timeseries", (series("switch", "comm"),), unit="cps", stacked=True),
                Panel("Wait for a CPU", "timeseries", (percentiles("switch"),), unit="ns"),
                Panel("Switches, summary", "timeseries", (series("sched_summary", "thread_comm"),), unit="cps"),
                Panel("Wait for a CPU, summary", "timeseries", (mean("sched_process_summary", "comm"),), unit="ns"),
                wide(
                    Panel(
                        "Log of switches",
                        "table",
                        (
                            log(
                                "switch",
                                "tid, cpu, on_cpu_ns, run_queue_ns, off_cpu_ns, involuntary, next_comm, next_tid,"
                                " waker_comm, waker_tid",
                            ),
                        ),
                        ABOUT_RECENT,
                        units=_NANOSECONDS,
                    )
                ),
                Panel("Page faults", "timeseries", (series("page_fault_summary", "kind"),), unit="cps"),
                Panel("Spans", "table", (totals("span", "function"),), units=_NANOSECONDS),
            ),
        ),
    ),
    (
        MACHINES,
        comms("syscall", "syscall_summary", "open", "file_summary", "switch", "sched_summary"),
        TASKS,
        CONTAINERS,
    ),
    ANNOTATIONS,
)
