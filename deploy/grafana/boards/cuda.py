"""CUDA: launches, calls, copies, memory, GPUs."""

from deploy.grafana.panels import Dashboard, Panel, PromQL, wide
from deploy.grafana.queries import (
    ABOUT_RECENT,
    ANNOTATIONS,
    CHOSEN,
    CONTAINERS,
    MACHINE,
    MACHINES,
    TASKS,
    comms,
    flames,
    largest,
    log,
    now,
    percentiles,
    recent,
    series,
    shares,
    totals,
)

_SYNCHRONIZE = "function ILIKE '%synchronize%'"
_NANOSECONDS = {"duration_ns": "ns", "mean": "ns", "total": "ns", "longest": "ns"}

DASHBOARD = Dashboard(
    "scope-cuda",
    "CUDA",
    "Calls of the CUDA runtime and driver, kernels, memory and GPUs. From the probes cuda and gpu.",
    (
        (
            "Kernels",
            (
                Panel("Launches by kernel", "piechart", (shares("cuda_launch", "kernel"),)),
                Panel("Launches", "timeseries", (series("cuda_launch", "kernel"),), unit="cps", stacked=True),
                Panel("Launches by kernel", "table", (totals("cuda_launch", "kernel"),), units=_NANOSECONDS),
                Panel("Duration of launch calls", "timeseries", (percentiles("cuda_launch"),), unit="ns"),
                wide(
                    Panel(
                        "Launch log",
                        "table",
                        (
                            log(
                                "cuda_launch",
                                "kernel, module AS file, '0x' || to_hex(\"offset\") AS file_offset, name_source,"
                                " concat_ws('×', grid_x, grid_y, grid_z) AS grid,"
                                " concat_ws('×', block_x, block_y, block_z) AS block, shared_bytes, device, stream,"
                                " duration_ns, result_name, stack",
                            ),
                        ),
                        ABOUT_RECENT,
                        units=_NANOSECONDS | {"shared_bytes": "bytes"},
                    )
                ),
                flames("cuda_launch", "Who launches"),
            ),
        ),
        (
            "Summaries",
            (
                Panel("Launches by kernel, summary", "piechart", (shares("cuda_launch_summary", "kernel"),)),
                Panel("Launches, summary", "timeseries", (series("cuda_launch_summary", "kernel"),), unit="cps"),
                Panel(
                    "Calls by function, summary",
                    "table",
                    (totals("cuda_call_summary", "function"),),
                    units=_NANOSECONDS,
                ),
                Panel("Calls, summary", "timeseries", (series("cuda_call_summary", "function"),), unit="cps"),
            ),
        ),
        (
            "Calls",
            (
                Panel(
                    "Duration of synchronizing calls",
                    "timeseries",
                    (percentiles("cuda_call", _SYNCHRONIZE),),
                    unit="ns",
                ),
                Panel(
                    "Longest synchronizing calls",
                    "table",
                    (
                        recent(
                            "cuda_call",
                            "hostname, comm, function, count(*) AS calls, avg(duration_ns)::float8 AS mean,"
                            " max(duration_ns) AS longest",
                            "hostname, comm, function",
                            "longest",
                            f"{CHOSEN} AND {_SYNCHRONIZE}",
                        ),
                    ),
                    ABOUT_RECENT,
                    units=_NANOSECONDS,
                ),
                Panel("Calls by function", "table", (totals("cuda_call", "function"),), units=_NANOSECONDS),
                Panel("Calls", "timeseries", (series("cuda_call", "function"),), unit="cps"),
                Panel(
                    "Copies",
                    "table",
                    (
                        recent(
                            "cuda_call",
                            "hostname, comm, kind, count(*) AS copies, sum(bytes)::float8 AS bytes,"
                            " sum(bytes) * 1e9 / nullif(sum(duration_ns), 0)::float8 AS bandwidth",
                            "hostname, comm, kind",
                            "bytes",
                            f"{CHOSEN} AND kind IS NOT NULL AND nested = 0",
                        ),
                    ),
                    f"{ABOUT_RECENT} Bandwidth of asynchronous copies is that of the call, not of the copy.",
                    units={"bytes": "bytes", "bandwidth": "Bps"},
                ),
                Panel(
                    "Errors",
                    "table",
                    (log("cuda_call", "function, result_name, bytes, duration_ns", "result <> 0"),),
                    ABOUT_RECENT,
                    units=_NANOSECONDS,
                ),
            ),
        ),
        (
            "Memory",
            (
                Panel(
                    "Held memory",
                    "table",
                    (
                        now(
                            "cuda_memory",
                            "comm, pid, memory, device, live_bytes, live_count, allocations, unknown_frees",
                            "live_bytes DESC",
                            f"{CHOSEN} AND NOT ended",
                        ),
                    ),
                    "What processes allocated and did not free yet, now.",
                    units={"live_bytes": "bytes"},
                ),
                Panel(
                    "Unfreed memory by stack",
                    "table",
                    (
                        largest(
                            "cuda_live", "comm, pid, memory, device, live_bytes, live_count, mean_age_ns, ended, stack"
                        ),
                    ),
                    "What grows here is a leak.",
                    units={"live_bytes": "bytes", "mean_age_ns": "ns"},
                ),
            ),
        ),
        (
            "GPUs",
            (
                wide(
                    Panel(
                        "GPUs",
                        "table",
                        (
                            now(
                                "gpu",
                                "device, name, gpu_percent, memory_used_bytes, memory_total_bytes, temperature_celsius,"
                                " power_watts, sm_clock_mhz, slowed_by",
                                "hostname, device",
                                MACHINE,
                            ),
                        ),
                        units={
                            "gpu_percent": "percent",
                            "memory_used_bytes": "bytes",
                            "memory_total_bytes": "bytes",
                            "temperature_celsius": "celsius",
                            "power_watts": "watt",
                        },
                    )
                ),
                Panel(
                    "Utilization",
                    "timeseries",
                    (PromQL("scope_gpu_gpu_percent", "{{instance}} {{device}}"),),
                    unit="percent",
                ),
                Panel(
                    "Memory",
                    "timeseries",
                    (PromQL("scope_gpu_memory_used_bytes", "{{instance}} {{device}}"),),
                    unit="bytes",
                ),
                wide(
                    Panel(
                        "Processes",
                        "table",
                        (now("gpu_process", "comm, pid, device, kind, used_bytes", "used_bytes DESC NULLS LAST"),),
                        units={"used_bytes": "bytes"},
                    )
                ),
            ),
        ),
    ),
    (MACHINES, comms("cuda_launch", "cuda_call", "cuda_launch_summary", "cuda_call_summary"), TASKS, CONTAINERS),
    ANNOTATIONS,
)
