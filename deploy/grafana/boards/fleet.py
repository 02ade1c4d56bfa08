"""The fleet: machines, programs, tasks, what is recorded, lost and not recorded."""

from deploy.grafana.panels import CONSOLE, Dashboard, Panel, PromQL, Sql, stat, wide
from deploy.grafana.queries import (
    ANNOTATIONS,
    FROM,
    MACHINE,
    MACHINES,
    TASK,
    TASKS,
    TO,
    comms,
    series,
    totals,
)

_OF_MACHINE = {
    "hostname": "/d/scope-system?var-machine=${__data.fields.machine_id}&${__url_time_range}",
    "machine_id": f"{CONSOLE}/nodes/${{__data.fields.machine_id}}",
}
_OF_TASK = {"task_id": f"{CONSOLE}/tasks/${{__data.fields.task_id}}"}
_RECORDED = PromQL("sum by (probe) (rate(scope_events_total[$__rate_interval]))", "{{probe}}")

DASHBOARD = Dashboard(
    "scope-fleet",
    "Fleet",
    "Machines, their programs and tasks, and what was recorded, lost and not recorded.",
    (
        (
            "Now",
            (
                stat("Machines", Sql("SELECT count(*) AS machines FROM scope.machines")),
                stat(
                    "Away",
                    Sql("SELECT count(*) AS away FROM scope.machines WHERE last_seen < now() - interval '3 min'"),
                    about="Machines that did not report in the last 3 minutes.",
                ),
                stat("Wanted tasks", Sql(f"SELECT count(*) AS tasks FROM scope.tasks WHERE wanted AND {MACHINE}")),
                stat(
                    "Failed runs",
                    Sql(
                        f"SELECT count(*) AS failed FROM scope.runs WHERE state = 'failed' AND {MACHINE}"
                        f" AND coalesce(ended, started) BETWEEN {FROM} AND {TO}"
                    ),
                ),
                stat(
                    "Lost events",
                    Sql(
                        f"SELECT coalesce(sum(count), 0)::bigint AS lost FROM scope.losses WHERE {MACHINE}"
                        f" AND last_time >= {FROM} AND first_time < {TO}"
                    ),
                ),
                stat("Connected agents", PromQL("sum(scope_server_sessions)", "agents")),
            ),
        ),
        (
            "Machines",
            (
                wide(
                    Panel(
                        "Machines",
                        "table",
                        (
                            Sql(
                                "SELECT hostname, now() - last_seen < interval '3 min' AS reports, last_seen, booted,"
                                " cpus, memory_bytes, kernel, architecture, agent_version, clock_ahead_ns, machine_id"
                                f" FROM scope.machines WHERE {MACHINE} ORDER BY hostname LIMIT 1000"
                            ),
                        ),
                        "A machine that does not report is off, cut off, or its agent does not run.",
                        units={"memory_bytes": "bytes", "clock_ahead_ns": "ns"},
                        links=_OF_MACHINE,
                    )
                ),
                Panel("Events by probe", "timeseries", (_RECORDED,), unit="cps", stacked=True),
                Panel(
                    "Processor time of BPF programs",
                    "timeseries",
                    (PromQL("sum by (instance) (scope_cpu_share)", "{{instance}}"),),
                    "Share of one CPU.",
                    "percentunit",
                ),
            ),
        ),
        (
            "Processes",
            (
                Panel(
                    "Time on a CPU",
                    "timeseries",
                    (series("sched_summary", "comm", "sum(sum) / 1e6 / $__interval_ms"),),
                    "How many CPUs the programs have used, where tasks of sched record summaries.",
                    stacked=True,
                ),
                Panel(
                    "Programs by time on a CPU",
                    "table",
                    (totals("sched_summary", "comm"),),
                    "How often they ran, and for how long without a break.",
                    units={"mean": "ns", "total": "ns"},
                ),
            ),
        ),
        (
            "Tasks",
            (
                wide(
                    Panel(
                        "Runs",
                        "table",
                        (
                            Sql(
                                'SELECT started, ended, hostname, probe, state, "end", error, attach_point, sent_bytes,'
                                f" task_id::text, run_id::text FROM scope.runs WHERE {MACHINE} AND {TASK}"
                                f" AND started < {TO} AND coalesce(ended, now()) >= {FROM}"
                                " ORDER BY started DESC LIMIT 500"
                            ),
                        ),
                        units={"sent_bytes": "bytes"},
                        links=_OF_TASK,
                    )
                ),
                Panel(
                    "Lost events",
                    "table",
                    (
                        Sql(
                            "SELECT hostname, stream, place, reason, sum(count)::bigint AS lost,"
                            " min(first_time) AS first, max(last_time) AS last FROM scope.losses"
                            f" WHERE {MACHINE} AND {TASK} AND last_time >= {FROM} AND first_time < {TO}"
                            " GROUP BY hostname, stream, place, reason ORDER BY lost DESC LIMIT 100"
                        ),
                    ),
                    "All places where events can be lost count what they lose.",
                ),
                Panel(
                    "Not recorded",
                    "table",
                    (
                        Sql(
                            "SELECT hostname, probe, since, until, reason, task_id::text FROM scope.gaps"
                            f" WHERE {MACHINE} AND {TASK} AND since < {TO} AND coalesce(until, now()) >= {FROM}"
                            " ORDER BY since DESC LIMIT 100"
                        ),
                    ),
                    "Times at which a wanted task did not run, such as without its agent.",
                    links=_OF_TASK,
                ),
            ),
        ),
    ),
    (MACHINES, comms("sched_summary"), TASKS),
    ANNOTATIONS,
    "now-1h",
)
