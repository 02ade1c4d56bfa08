"""Where the time of calls goes, for every probe whose programs include bpf/include/where.bpf.h."""

from scope_bpf.catalogue.probe import Hooks
from scope_catalogue.stream import Column

HOOKS = Hooks(
    programs=("where_switch", "where_wakeup"),
    software_events={
        "where_major_served": "PERF_COUNT_SW_PAGE_FAULTS_MAJ",
        "where_minor_served": "PERF_COUNT_SW_PAGE_FAULTS_MIN",
        "where_fault": "PERF_COUNT_SW_PAGE_FAULTS",
    },
)

PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns", "stopped_ns", "unknown_ns")  # they add up to the duration

COLUMNS = {
    "on_cpu_ns": Column("time on a CPU, as part of the duration", "ns"),
    "run_queue_ns": Column("time runnable, waiting for a CPU, as part of the duration", "ns"),
    "blocked_ns": Column("time blocked, as part of the duration", "ns"),
    "stopped_ns": Column("time stopped by a signal or a debugger, as part of the duration", "ns"),
    "unknown_ns": Column(
        "rest of the duration, around switches of the thread that were not seen; a row with such a time counts as "
        "incomplete",
        "ns",
    ),
    "page_fault_ns": Column("time in page faults: part of the other times, do not add it", "ns"),
}
