"""Where the time of calls goes, for every probe whose programs include bpf/include/where.bpf.h."""

from scope_bpf.catalogue.probe import Hooks
from scope_bpf.catalogue.stream import Column

HOOKS = Hooks(
    programs=("where_switch", "where_wakeup"),
    software_events={
        "where_major_served": "PERF_COUNT_SW_PAGE_FAULTS_MAJ",
        "where_minor_served": "PERF_COUNT_SW_PAGE_FAULTS_MIN",
        "where_fault": "PERF_COUNT_SW_PAGE_FAULTS",
    },
)

PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns")  # they add up to the duration

COLUMNS = {
    "on_cpu_ns": Column("time on a CPU, as part of the duration; absent if unknown", "ns"),
    "run_queue_ns": Column("time runnable, waiting for a CPU, as part of the duration; absent if unknown", "ns"),
    "blocked_ns": Column("time blocked, as part of the duration; absent if unknown", "ns"),
    "page_fault_ns": Column("time in page faults: part of the other times, do not add it; absent if unknown", "ns"),
}
