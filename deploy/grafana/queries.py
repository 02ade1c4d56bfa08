"""SQL of the dashboards.

Totals come from `scope.STREAM_totals`; those over time from `_steps`, or of each machine from `_minutes` and, for
long steps, `_hours`; percentiles from `_buckets` or, of chosen programs or groups, `_distribution`. Panels that need
single rows read the last minutes of the range only: a range of days may have billions of rows. Groups beyond the
largest ten are one: `other`.
"""

from itertools import pairwise

from deploy.grafana.panels import Annotation, Panel, Sql, Variable

from scope_catalogue.catalogue import streams

FROM, TO = "$__timeFrom()::timestamptz", "$__timeTo()::timestamptz"
RECENT_MINUTES = 5
_RECENT = f"greatest({FROM}, {TO} - interval '{RECENT_MINUTES} min'), {TO}"
_RANGE = f"{FROM}, {TO}"
ABOUT_RECENT = f"Of the last {RECENT_MINUTES} minutes of the time range."

# Ids are hexadecimal, so they need no quotes between the bars; `.*` stands for all, for Prometheus as well.
_MACHINES = "string_to_array('${machine:pipe}', '|')"
_OF_MACHINES = f"CASE WHEN '${{machine:pipe}}' <> '.*' THEN {_MACHINES} END"
MACHINE = f"('${{machine:pipe}}' = '.*' OR machine_id = ANY ({_MACHINES}))"
_EVERY_COMM = "'*' IN (${comm:sqlstring})"
_OF_COMMS = f"CASE WHEN NOT {_EVERY_COMM} THEN ARRAY[${{comm:sqlstring}}] END"
COMM = f"({_EVERY_COMM} OR comm IN (${{comm:sqlstring}}))"
TASK = "('${task:pipe}' = '.*' OR task_id::text = ANY (string_to_array('${task:pipe}', '|')))"
CONTAINER = (
    "('*' IN (${container:sqlstring}) OR (machine_id, pid, start_ns) IN"
    " (SELECT machine_id, pid, start_ns FROM scope.processes WHERE container IN (${container:sqlstring})))"
)
OF_MACHINE = 'and on (instance) scope_agent_info{machine_id=~"${machine:pipe}"}'  # a condition in PromQL
CHOSEN = f"{MACHINE} AND {COMM}"
_STEP_MS = "$__interval_ms * interval '1 ms'"
# As $__timeGroup, which computes a fraction of seconds for each row, and takes twice as long as all the rest.
_STEP = f"date_bin({_STEP_MS}, minute, 'epoch')"
_A_SECOND = "sum(count) * 1000.0 / $__interval_ms"
_SHORT_STEPS, _LONG_STEPS = "$__interval_ms < 3600000", "$__interval_ms >= 3600000"


def series(stream: str, by: str, value: str = _A_SECOND, where: str = "") -> Sql:
    """A point for each step and group; by default the count a second."""
    arguments = f"{_RANGE}, {_STEP_MS}, {_OF_MACHINES}"
    chosen = f"{COMM} AND {where}" if where else COMM
    return _points(stream, by, f"time AS step, {value}", f"scope.{stream}_steps({arguments})", chosen)


def of_machines(stream: str) -> Sql:
    """The count a second of each machine."""
    # PostgreSQL does not run the part whose condition, of constants only, is false. The first column is the time.
    over_time = (
        f"(SELECT * FROM scope.{stream}_minutes({_RANGE}) WHERE {_SHORT_STEPS}"
        f" UNION ALL SELECT * FROM scope.{stream}_hours({_RANGE}) WHERE {_LONG_STEPS})"
    )
    return _points(stream, "hostname", f"{_STEP} AS step, {_A_SECOND}", over_time, CHOSEN)


def _points(stream: str, by: str, selected: str, over_time: str, where: str) -> Sql:
    return Sql(
        f"""WITH points AS (
  SELECT coalesce({by}, '-') AS metric, {selected} AS value
  FROM {over_time} AS t
  WHERE {where} GROUP BY metric, step
), top AS MATERIALIZED (
  SELECT metric FROM points GROUP BY metric ORDER BY sum(value) DESC NULLS LAST LIMIT 10
)
SELECT step AS time, coalesce(top.metric, 'other') AS metric, sum(value)::float8 AS value
FROM points LEFT JOIN top USING (metric) GROUP BY 1, 2 ORDER BY 1""",
        series=True,
        console=_page(stream),
    )


def mean(stream: str, by: str, where: str = "") -> Sql:
    """The mean of the measured column for each step and group."""
    return series(stream, by, "sum(sum) / nullif(sum(count), 0)", where)


def percentiles(stream: str, where: str = "") -> Sql:
    """The median and the 99th percentile of the measured column for each step."""
    arguments = f"{_RANGE}, {_STEP_MS}, {_OF_MACHINES}"
    rows = f"SELECT time, at_least, count FROM scope.{stream}_distribution({arguments}) WHERE {COMM} AND {where}"
    if not where:  # of all programs, from totals without names
        rows = (
            f"SELECT time, at_least, count FROM scope.{stream}_buckets({arguments}) WHERE {_EVERY_COMM}\n"
            f"  UNION ALL SELECT time, at_least, count FROM scope.{stream}_distribution({arguments})\n"
            f"  WHERE NOT {_EVERY_COMM} AND comm IN (${{comm:sqlstring}})"
        )
    each = [
        f"SELECT time, '{name}' AS metric, scope.percentile({share}, at_least, count) AS value FROM buckets GROUP BY 1"
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]
    return Sql(
        f"""WITH buckets AS (
  SELECT time, at_least, sum(count)::bigint AS count FROM (
  {rows}
  ) AS t GROUP BY 1, 2
)
{f"{chr(10)}UNION ALL ".join(each)}
ORDER BY 1""",
        series=True,
        console=_page(stream),
    )


def shares(stream: str, by: str, value: str = "sum(count)") -> Sql:
    """The largest groups with their totals, for a pie."""
    return Sql(
        f"""SELECT coalesce({by}, '-') AS name, {value}::float8 AS value
FROM scope.{stream}_totals({_RANGE}, {_OF_MACHINES})
WHERE {COMM} GROUP BY 1 ORDER BY 2 DESC NULLS LAST LIMIT 20""",
        console=_page(stream),
    )


def totals(stream: str, by: str) -> Sql:
    """The largest groups: count, failures, mean and sum."""
    return Sql(
        f"""SELECT {by}, sum(count)::bigint AS count, sum(failed)::bigint AS failed,
  (sum(sum) / nullif(sum(count), 0))::float8 AS mean, sum(sum)::float8 AS total
FROM scope.{stream}_totals({_RANGE}, {_OF_MACHINES})
WHERE {COMM} GROUP BY {by} ORDER BY sum(sum) DESC NULLS LAST, count DESC LIMIT 50""",
        console=_page(stream),
    )


def log(stream: str, columns: str, where: str = "true", whole: bool = False) -> Sql:
    """The newest rows; `whole`: of the whole range, for streams with few rows."""
    bounds = ("0 s", "1 s", "10 s", *(("1 min", "1000 years") if whole else (f"{RECENT_MINUTES} min",)))
    ages = ", ".join(f"(interval '{newest}', interval '{oldest}')" for newest, oldest in pairwise(bounds))
    # Older rows are read only if there are too few newer ones: a join with LATERAL takes the ages in their order.
    return Sql(
        f"""SELECT r.* FROM (VALUES {ages}) AS age (newest, oldest) CROSS JOIN LATERAL (
  SELECT time, hostname, comm, pid, {columns}
  FROM scope.{stream}(greatest({FROM}, {TO} - oldest), {TO} - newest)
  WHERE {CHOSEN} AND {TASK} AND {CONTAINER} AND {where} ORDER BY time DESC LIMIT 500
) AS r LIMIT 500""",
        console=_page(stream),
    )


def marked(stream: str, name: str) -> str:
    """A column's paths or lists, with ... where the beginning of the one or the end of the other was cut."""
    column = streams()[stream].by_name[name]
    with_dots = f"array_append({name}, '...')" if column.type.startswith("list") else f"'...' || {name}"
    return f"CASE WHEN {column.cut_if} <> 0 THEN {with_dots} ELSE {name} END"


def recent(stream: str, select: str, group: str, order: str, where: str = CHOSEN) -> Sql:
    """Groups of the rows of the last minutes, by columns that no total has."""
    return Sql(
        f"""SELECT {select} FROM scope.{stream}({_RECENT})
WHERE {where} GROUP BY {group} ORDER BY {order} DESC NULLS LAST LIMIT 50""",
        console=_page(stream),
    )


def now(stream: str, columns: str, order: str, where: str = CHOSEN) -> Sql:
    """The current states."""
    asked = f"SELECT time, hostname, {columns} FROM scope.{stream}_now() WHERE {where} ORDER BY {order} LIMIT 100"
    return Sql(asked, console=_page(stream))


def largest(stream: str, columns: str) -> Sql:
    """The largest groups of current states."""
    asked = f"SELECT time, hostname, {columns} FROM scope.{stream}_largest(100, {_OF_MACHINES}, {_OF_COMMS})"
    return Sql(asked, console=_page(stream))


def flames(stream: str, title: str, unit: str = "ns") -> Panel:
    """The flame graph of a stream, of the last minutes."""
    query = f"SELECT level, value, self, label FROM scope.{stream}_flames({_RECENT}, {_OF_MACHINES}, {_OF_COMMS})"
    return Panel(
        title, "flamegraph", (Sql(query, console=f"/flames/{stream}"),), ABOUT_RECENT, unit, width=24, height=14
    )


def _page(stream: str) -> str:
    return f"/explore/{stream}"


MACHINES = Variable(
    "machine",
    "Machine",
    "SELECT hostname || ' (' || left(machine_id, 8) || ')' AS __text, machine_id AS __value"
    " FROM scope.machines ORDER BY 1",
)
TASKS = Variable(
    "task",
    "Task",
    "SELECT probe || ' on ' || hostname || ' (' || left(task_id::text, 8) || ')' AS __text, task_id AS __value"
    f" FROM scope.tasks WHERE created < {TO} ORDER BY created DESC LIMIT 200",
    "For tables of single rows. Totals do not tell tasks apart.",
)
CONTAINERS = Variable(
    "container",
    "Container",
    "SELECT DISTINCT container FROM scope.processes WHERE container IS NOT NULL ORDER BY 1 LIMIT 1000",
    "For tables of single rows. Totals do not tell containers apart.",
    every="'*'",
)


def comms(*streams: str) -> Variable:
    """The variable of process names, of those that these streams have totals of."""
    each = (f"SELECT comm FROM scope.{stream}_totals({_RANGE})" for stream in streams)
    asked = f"SELECT DISTINCT comm FROM ({' UNION '.join(each)}) AS t ORDER BY 1 LIMIT 1000"
    return Variable("comm", "Process", asked, every="'*'")


RUNS = Annotation(
    "Tasks",
    "SELECT started AS time, ended AS timeend, probe || ' on ' || hostname AS text, state AS tags FROM scope.runs"
    f" WHERE started < {TO} AND coalesce(ended, now()) > {FROM} ORDER BY started DESC LIMIT 100",
    "blue",
)
LOSSES = Annotation(
    "Losses",
    "SELECT first_time AS time, last_time AS timeend,"
    " count || ' events of ' || stream || ' lost on ' || hostname || ': ' || place || '/' || reason AS text,"
    f" stream AS tags FROM scope.losses WHERE first_time < {TO} AND last_time >= {FROM}"
    " ORDER BY first_time DESC LIMIT 100",
    "red",
)
GAPS = Annotation(
    "Gaps",
    "SELECT since AS time, coalesce(until, now()) AS timeend,"
    " probe || ' was not recorded on ' || hostname || ': ' || reason AS text, reason AS tags FROM scope.gaps"
    f" WHERE since < {TO} AND coalesce(until, now()) > {FROM} ORDER BY since DESC LIMIT 100",
    "orange",
)
SAID = Annotation(
    "Annotations",
    "SELECT time, until AS timeend, concat_ws(' on ', text, hostname) AS text,"
    " (SELECT string_agg(key || '=' || value, ',' ORDER BY key) FROM jsonb_each_text(labels)) AS tags"
    f" FROM scope.annotations WHERE time < {TO} AND coalesce(until, time) >= {FROM} ORDER BY time DESC LIMIT 100",
    "green",
)
ANNOTATIONS = (RUNS, LOSSES, GAPS, SAID)
