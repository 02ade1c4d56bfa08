"""Python: where its time goes, by samples and by calls."""

from deploy.grafana.panels import Dashboard, Panel, wide
from deploy.grafana.queries import (
    ABOUT_RECENT,
    ANNOTATIONS,
    CONTAINERS,
    MACHINES,
    TASKS,
    comms,
    flames,
    log,
    percentiles,
    recent,
    series,
)

_NANOSECONDS = {"total": "ns", "self": "ns", "mean": "ns", "duration_ns": "ns", "self_ns": "ns"}
_BUSY = "sum(sum) / ($__interval_ms * 1e6)"

DASHBOARD = Dashboard(
    "scope-python",
    "Python",
    "Where Python programs spend their time. From the probes python and profile.",
    (
        (
            "Samples",
            (
                Panel("Sampled time", "timeseries", (series("python_sample", "comm", _BUSY),), "CPUs.", stacked=True),
                Panel(
                    "Sampled time, summary", "timeseries", (series("python_sample_summary", "comm", _BUSY),), "CPUs."
                ),
                flames("python_sample", "Python"),
                flames("python_sample_summary", "Python, summary"),
                flames("profile", "Whole stacks: kernel, native code and Python"),
                flames("profile_summary", "Whole stacks, summary"),
            ),
        ),
        (
            "Calls",
            (
                Panel("Calls", "timeseries", (series("python_call", "comm"),), unit="cps"),
                Panel("Duration of calls", "timeseries", (percentiles("python_call"),), unit="ns"),
                Panel(
                    "Functions",
                    "table",
                    (
                        recent(
                            "python_call",
                            "comm, function, file, line, count(*) AS calls, sum(self_ns)::float8 AS self,"
                            " sum(duration_ns)::float8 AS total",
                            "comm, function, file, line",
                            "self",
                        ),
                    ),
                    ABOUT_RECENT,
                    units=_NANOSECONDS,
                ),
                Panel(
                    "Functions, summary",
                    "table",
                    (
                        recent(
                            "python_call_summary",
                            "comm, function, file, sum(calls)::bigint AS calls, sum(self_ns)::float8 AS self,"
                            " sum(total_ns)::float8 AS total",
                            "comm, function, file",
                            "self",
                        ),
                    ),
                    ABOUT_RECENT,
                    units=_NANOSECONDS,
                ),
                wide(
                    Panel(
                        "Calls",
                        "table",
                        (log("python_call", "function, file, line, depth, duration_ns, self_ns, ended"),),
                        ABOUT_RECENT,
                        units=_NANOSECONDS,
                    )
                ),
            ),
        ),
    ),
    (
        MACHINES,
        comms("python_sample", "python_sample_summary", "python_call", "python_call_summary", "profile"),
        TASKS,
        CONTAINERS,
    ),
    ANNOTATIONS,
)
