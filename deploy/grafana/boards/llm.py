"""LLM inference: requests and tokens of llama.cpp, ggml's operators and memory, Ollama's requests and log."""

from deploy.grafana.panels import Dashboard, Panel, Sql, wide
from deploy.grafana.queries import (
    ABOUT_RECENT,
    ANNOTATIONS,
    CHOSEN,
    CONTAINER,
    CONTAINERS,
    FROM,
    MACHINES,
    TASK,
    TASKS,
    TO,
    comms,
    log,
    marked,
    mean,
    now,
    of_machines,
    percentiles,
    recent,
    series,
    shares,
    totals,
)

_NANOSECONDS = {"duration_ns": "ns", "mean": "ns", "total": "ns", "ttft_ns": "ns", "mean_ns": "ns", "longest_ns": "ns"}
_MUL_MAT = "function ILIKE '%mul_mat%'"

DASHBOARD = Dashboard(
    "scope-llm",
    "LLM",
    "Requests and tokens, what they waited for, operators, memory and logs. From the probes llama, ggml and ollama.",
    (
        (
            "Tokens",
            (
                Panel("Tokens a second", "timeseries", (of_machines("llama_token"),), unit="cps"),
                Panel("Time of a token", "timeseries", (percentiles("llama_token"),), unit="ns"),
                Panel("Decodes", "timeseries", (mean("llama_decode", "function"),), unit="ns"),
                Panel(
                    "Where the time of tokens went",
                    "table",
                    (
                        recent(
                            "llama_token",
                            "hostname, comm, count(*) AS tokens, avg(duration_ns)::float8 AS mean,"
                            " avg(wait_ns)::float8 AS wait, avg(gpu_wait_ns)::float8 AS gpu_wait,"
                            " avg(matmul_ns)::float8 AS matmul,"
                            " avg(attention_ns)::float8 AS attention, avg(barrier_ns)::float8 AS barrier,"
                            " avg(run_queue_ns)::float8 AS run_queue, avg(blocked_ns)::float8 AS blocked",
                            "hostname, comm",
                            "tokens",
                            f"{CHOSEN} AND draft = 0",
                        ),
                    ),
                    ABOUT_RECENT,
                    "ns",
                    units={"tokens": "short"},
                ),
                wide(
                    Panel(
                        "Requests",
                        "table",
                        (
                            log(
                                "llama_request",
                                "duration_ns, ttft_ns, prompt_tokens, cached_tokens, generated_tokens, prompt_rate,"
                                " token_rate, ended",
                                "draft = 0",
                                whole=True,
                            ),
                        ),
                        units=_NANOSECONDS,
                    )
                ),
            ),
        ),
        (
            "Operators",
            (
                Panel(
                    "Duration of mul_mat",
                    "timeseries",
                    (mean("ggml_operation", "function", _MUL_MAT),),
                    unit="ns",
                ),
                Panel("mul_mat, percentiles", "timeseries", (percentiles("ggml_operation", _MUL_MAT),), unit="ns"),
                Panel("Operators", "table", (totals("ggml_operation", "function"),), units=_NANOSECONDS),
                Panel("Time of operators", "piechart", (shares("ggml_operation", "function", "sum(sum)"),), unit="ns"),
                Panel(
                    "By operation and type",
                    "table",
                    (
                        recent(
                            "ggml_operation",
                            "op, data_type, device, count(*) AS operations, avg(duration_ns)::float8 AS mean,"
                            " sum(duration_ns)::float8 AS total",
                            "op, data_type, device",
                            "total",
                            f"{CHOSEN} AND nested = 0",
                        ),
                    ),
                    ABOUT_RECENT,
                    units=_NANOSECONDS,
                ),
                Panel("Duration of graphs", "timeseries", (percentiles("ggml_graph"),), unit="ns"),
                wide(
                    Panel(
                        "Graphs",
                        "table",
                        (
                            log(
                                "ggml_graph",
                                "function, duration_ns, nodes, leafs, on_cpu_ns, run_queue_ns, blocked_ns, result",
                            ),
                        ),
                        ABOUT_RECENT,
                        units=_NANOSECONDS | {"on_cpu_ns": "ns", "run_queue_ns": "ns", "blocked_ns": "ns"},
                    )
                ),
            ),
        ),
        (
            "Memory",
            (
                Panel(
                    "ggml's allocation log",
                    "table",
                    (log("ggml_allocation", "function, bytes, '0x' || to_hex(address) AS address, stack"),),
                    ABOUT_RECENT,
                    units={"bytes": "bytes"},
                ),
                Panel(
                    "Held memory",
                    "table",
                    (
                        now(
                            "ggml_memory",
                            "comm, pid, memory, live_bytes, live_count, allocations, ended",
                            "live_bytes DESC",
                        ),
                    ),
                    units={"live_bytes": "bytes"},
                ),
            ),
        ),
        (
            "Ollama",
            (
                Panel("Requests", "timeseries", (series("ollama_request", "path"),), unit="cps"),
                Panel("Duration of requests", "timeseries", (percentiles("ollama_request"),), unit="ns"),
                wide(
                    Panel(
                        "Requests",
                        "table",
                        (
                            log(
                                "ollama_request",
                                "method, path, status, duration_ns, first_byte_ns, longest_gap_ns, body_bytes,"
                                " ended, peer",
                                whole=True,
                            ),
                        ),
                        units=_NANOSECONDS | {"first_byte_ns": "ns", "longest_gap_ns": "ns", "body_bytes": "bytes"},
                    )
                ),
                wide(
                    Panel(
                        "Loaded models",
                        "table",
                        (
                            log(
                                "ollama_model",
                                f"{marked('ollama_model', 'path')} AS path, duration_ns, file_bytes, read_bytes,"
                                " read_ns, map_ns",
                                whole=True,
                            ),
                        ),
                        units=_NANOSECONDS
                        | {"file_bytes": "bytes", "read_bytes": "bytes", "read_ns": "ns", "map_ns": "ns"},
                    )
                ),
                wide(
                    Panel(
                        "Log",
                        "logs",
                        (
                            Sql(
                                "SELECT time, text AS body, coalesce(level, 'unknown') AS level, hostname, comm, pid"
                                f" FROM scope.ollama_log({FROM}, {TO}) WHERE {CHOSEN} AND {TASK} AND {CONTAINER}"
                                " ORDER BY time DESC LIMIT 1000"
                            ),
                        ),
                        "The log of llama.cpp and Ollama, read from the functions that write it.",
                    )
                ),
            ),
        ),
    ),
    (MACHINES, comms("llama_token", "ggml_operation", "ggml_graph", "ollama_request", "ollama_log"), TASKS, CONTAINERS),
    ANNOTATIONS,
)
