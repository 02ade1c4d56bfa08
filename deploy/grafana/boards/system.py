"""One machine or all: processors, memory, disks, network, GPUs, containers, and which processes came and went."""

from deploy.grafana.panels import Dashboard, Panel, PromQL, wide
from deploy.grafana.queries import (
    ABOUT_RECENT,
    ANNOTATIONS,
    CHOSEN,
    CONTAINERS,
    MACHINE,
    MACHINES,
    OF_MACHINE,
    TASKS,
    comms,
    log,
    marked,
    recent,
    series,
)

_STARTED = f"filename, {marked('exec', 'args')} AS args, {marked('exec', 'cwd')} AS cwd, ret"


def _rate(name: str, by: str) -> str:
    return f"sum by (instance, {by}) (rate({name}[$__rate_interval]))"


def _prom(title: str, text: str, legend: str, unit: str, *, stacked: bool = False, about: str = "") -> Panel:
    return Panel(title, "timeseries", (PromQL(f"({text}) {OF_MACHINE}", legend),), about, unit, stacked=stacked)


def _busiest(title: str, text: str, unit: str, about: str = "") -> Panel:
    """The ten containers or units with the most of something."""
    asked = f"topk(10, sum by (instance, container, unit) ({text}) {OF_MACHINE})"
    return Panel(title, "timeseries", (PromQL(asked, "{{instance}} {{container}}{{unit}}"),), about, unit)


def _a_second(name: str) -> str:
    return f"rate({name}[$__rate_interval])"


DASHBOARD = Dashboard(
    "scope-system",
    "System",
    "What machines, containers and units do, from agents' metrics and the probe system; and their processes.",
    (
        (
            "Machine",
            (
                _prom(
                    "Processors",
                    "sum by (instance, mode) (rate(scope_host_cpu_seconds_total{mode!='idle'}[$__rate_interval]))"
                    " / on (instance) group_left scope_host_cpus",
                    "{{instance}} {{mode}}",
                    "percentunit",
                    stacked=True,
                ),
                _prom("Load", "scope_host_load1", "{{instance}}", "short"),
                _prom(
                    "Memory in use",
                    "1 - scope_host_memory_available_bytes / scope_host_memory_total_bytes",
                    "{{instance}}",
                    "percentunit",
                ),
                _prom(
                    "Pressure",
                    "sum by (instance, resource) (rate(scope_host_pressure_seconds_total[$__rate_interval]))",
                    "{{instance}} {{resource}}",
                    "percentunit",
                    about="Share of time in which at least one task waited for the resource.",
                ),
                _prom(
                    "Disk reads", _rate("scope_host_disk_read_bytes_total", "device"), "{{instance}} {{device}}", "Bps"
                ),
                _prom(
                    "Disk writes",
                    _rate("scope_host_disk_written_bytes_total", "device"),
                    "{{instance}} {{device}}",
                    "Bps",
                ),
                _prom(
                    "Received",
                    _rate("scope_host_network_received_bytes_total", "interface"),
                    "{{instance}} {{interface}}",
                    "Bps",
                ),
                _prom(
                    "Sent",
                    _rate("scope_host_network_sent_bytes_total", "interface"),
                    "{{instance}} {{interface}}",
                    "Bps",
                ),
            ),
        ),
        (
            "GPUs",
            (
                _prom("Utilization", "scope_gpu_gpu_percent", "{{instance}} {{name}} {{device}}", "percent"),
                _prom("Memory", "scope_gpu_memory_used_bytes", "{{instance}} {{name}} {{device}}", "bytes"),
            ),
        ),
        (
            "Containers and systemd units",
            (
                _busiest("Processor time", _a_second("scope_cgroup_cpu_seconds_total"), "percentunit"),
                _busiest("Memory", "scope_cgroup_memory_bytes", "bytes"),
                _busiest(
                    "Held back by their limit",
                    _a_second("scope_cgroup_throttled_seconds_total"),
                    "percentunit",
                    "Time of each CPU in which a limit of CPU time kept threads from running.",
                ),
                _busiest("Disk writes", _a_second("scope_cgroup_disk_written_bytes_total"), "Bps"),
                wide(
                    Panel(
                        "Cgroups",
                        "table",
                        (
                            recent(
                                "system_cgroup",
                                "hostname, cgroup, container, unit,"
                                " sum(cpu_percent * interval_ns) / nullif(sum(interval_ns), 0) AS cpu,"
                                " max(memory_bytes) AS memory, max(memory_limit_bytes) AS memory_limit,"
                                " sum(read_bytes)::float8 AS read, sum(written_bytes)::float8 AS written,"
                                " sum(oom_kills)::bigint AS oom_kills",
                                "hostname, cgroup, container, unit",
                                "cpu",
                                MACHINE,
                            ),
                        ),
                        f"{ABOUT_RECENT} From the probe system. Figures include those of the cgroups below.",
                        units={
                            **{"cpu": "percent", "memory": "bytes", "memory_limit": "bytes"},
                            **{"read": "bytes", "written": "bytes"},
                        },
                    )
                ),
            ),
        ),
        (
            "Processes",
            (
                Panel("Started programs", "timeseries", (series("exec", "comm"),), unit="cps"),
                Panel(
                    "Where time went",
                    "timeseries",
                    (series("why_summary", "part", "sum(sum) / ($__interval_ms * 1e6)"),),
                    "CPUs' worth of time by what threads did: ran, waited for a CPU, were blocked. From the probe why.",
                    "short",
                    stacked=True,
                ),
                wide(Panel("Started programs", "table", (log("exec", _STARTED),), ABOUT_RECENT)),
                wide(
                    Panel(
                        "Ended processes",
                        "table",
                        (
                            recent(
                                "exit",
                                "hostname, comm, count(*) AS ended, "
                                "count(*) FILTER (WHERE exit_code <> 0 OR signal <> 0) AS failed,"
                                " avg(lifetime_ns)::float8 AS lifetime, sum(user_ns + system_ns)::float8 AS cpu,"
                                " max(peak_rss_bytes) AS peak_rss",
                                "hostname, comm",
                                "ended",
                            ),
                        ),
                        ABOUT_RECENT,
                        units={"lifetime": "ns", "cpu": "ns", "peak_rss": "bytes"},
                    )
                ),
                wide(
                    Panel(
                        "Blocked in",
                        "table",
                        (
                            recent(
                                "why_summary",
                                "hostname, comm, thread_comm, part, blocked_in, path, sum(count)::bigint AS times,"
                                " sum(total_ns)::float8 AS total",
                                "hostname, comm, thread_comm, part, blocked_in, path",
                                "total",
                                f"{CHOSEN} AND blocked_in IS NOT NULL",
                            ),
                        ),
                        ABOUT_RECENT,
                        units={"total": "ns"},
                    )
                ),
            ),
        ),
    ),
    (MACHINES, comms("exec", "why_summary"), TASKS, CONTAINERS),
    ANNOTATIONS,
)
