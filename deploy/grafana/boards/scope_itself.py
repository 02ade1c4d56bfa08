"""SCOPE itself: do its books balance, what waits, what does it cost."""

from deploy.grafana.panels import Dashboard, Panel, PromQL, Sql, stat, wide
from deploy.grafana.queries import ANNOTATIONS, MACHINES, TASK, TASKS


def _prom(title: str, text: str, legend: str, unit: str = "short", about: str = "") -> Panel:
    return Panel(title, "timeseries", (PromQL(text, legend),), about, unit)


DASHBOARD = Dashboard(
    "scope-itself",
    "SCOPE itself",
    "Agents, servers and store: accounts of events, backlog, latencies, disk space and cost.",
    (
        (
            "Accounts",
            (
                stat(
                    "Emitted", Sql(f"SELECT coalesce(sum(emitted), 0)::bigint AS emitted FROM scope.books WHERE {TASK}")
                ),
                stat("Stored", Sql(f"SELECT coalesce(sum(stored), 0)::bigint AS stored FROM scope.books WHERE {TASK}")),
                stat("Lost", Sql(f"SELECT coalesce(sum(lost), 0)::bigint AS lost FROM scope.books WHERE {TASK}")),
                stat(
                    "Under way",
                    Sql(f"SELECT coalesce(sum(under_way), 0)::bigint AS under_way FROM scope.books WHERE {TASK}"),
                    about="Emitted by a kernel, and not counted as stored, lost or left out yet.",
                ),
                stat("Database", PromQL("min(scope_server_database_up)", "up")),
                stat("Connected agents", PromQL("sum(scope_server_sessions)", "agents")),
                wide(
                    Panel(
                        "Accounts by stream",
                        "table",
                        (
                            Sql(
                                "SELECT stream, sum(emitted)::bigint AS emitted, sum(stored)::bigint AS stored,"
                                " sum(lost)::bigint AS lost, sum(left_out)::bigint AS left_out,"
                                " sum(under_way)::bigint AS under_way,"
                                f" sum(incomplete)::bigint AS incomplete FROM scope.books WHERE {TASK}"
                                " GROUP BY stream ORDER BY emitted DESC"
                            ),
                        ),
                        "emitted = stored + lost + left out + under way",
                    )
                ),
            ),
        ),
        (
            "Agents",
            (
                _prom("Events", "sum by (stream) (rate(scope_events_total[$__rate_interval]))", "{{stream}}", "cps"),
                _prom(
                    "Lost before the spool",
                    "sum by (instance, place, reason) (rate(scope_lost_total[$__rate_interval]))",
                    "{{instance}} {{place}}/{{reason}}",
                    "cps",
                ),
                _prom(
                    "Spool in use",
                    "scope_agent_spool_bytes / scope_agent_spool_limit_bytes",
                    "{{instance}}",
                    "percentunit",
                    "Full, it gives up the oldest records, and counts them.",
                ),
                _prom("Connected", "scope_agent_connected", "{{instance}}"),
                _prom(
                    "Processor time of BPF programs",
                    "sum by (instance, probe) (scope_cpu_share)",
                    "{{instance}} {{probe}}",
                    "percentunit",
                ),
                _prom(
                    "Processor time of agents",
                    "rate(process_cpu_seconds_total{job='scope-agent'}[$__rate_interval])",
                    "{{instance}}",
                    "percentunit",
                ),
                _prom("Memory of agents", "process_resident_memory_bytes{job='scope-agent'}", "{{instance}}", "bytes"),
                _prom(
                    "Certificates end in",
                    "scope_agent_certificate_expires_seconds - time()",
                    "{{instance}}",
                    "s",
                ),
            ),
        ),
        (
            "Servers",
            (
                _prom(
                    "Stored events",
                    "sum by (instance) (rate(scope_server_stored_events_total[$__rate_interval]))",
                    "{{instance}}",
                    "cps",
                ),
                _prom("Waiting", "scope_server_held_bytes", "{{instance}}", "bytes"),
                _prom("Oldest waiting record", "scope_server_oldest_record_seconds", "{{instance}}", "s"),
                _prom(
                    "Refused and deferred records",
                    "sum by (code) (rate(scope_server_refused_records_total[$__rate_interval]))"
                    " or sum by (code) (rate(scope_server_deferred_records_total[$__rate_interval]))",
                    "{{code}}",
                    "cps",
                ),
                _prom(
                    "Requests of the API, 99th percentile",
                    "histogram_quantile(0.99, sum by (le)"
                    " (rate(scope_server_request_seconds_bucket[$__rate_interval])))",
                    "p99",
                    "s",
                ),
                _prom(
                    "Requests of the API",
                    "sum by (status) (rate(scope_server_requests_total[$__rate_interval]))",
                    "{{status}}",
                    "reqps",
                ),
                _prom(
                    "Processor time of servers",
                    "rate(process_cpu_seconds_total{job='scope-server'}[$__rate_interval])",
                    "{{instance}}",
                    "percentunit",
                ),
                _prom(
                    "Memory of servers", "process_resident_memory_bytes{job='scope-server'}", "{{instance}}", "bytes"
                ),
            ),
        ),
        (
            "Store",
            (
                _prom("Stored bytes", "max(scope_server_storage_bytes)", "stored", "bytes"),
                _prom("Free bytes on the disk", "min(scope_server_storage_free_bytes)", "free", "bytes"),
                wide(
                    Panel(
                        "Deleted days",
                        "table",
                        (
                            Sql(
                                "SELECT dropped_at, stream, day, rows, bytes, reason FROM scope.dropped"
                                " ORDER BY dropped_at DESC LIMIT 100"
                            ),
                        ),
                        units={"bytes": "bytes"},
                    )
                ),
            ),
        ),
    ),
    (MACHINES, TASKS),
    ANNOTATIONS,
    "now-1h",
)
