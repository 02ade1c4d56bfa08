"""SQL functions that show a rollup.

They are scope.STREAM_minutes, _hours, _seconds, _histogram, _totals, _steps, _distribution and _buckets.

`_totals`, `_steps` and `_distribution` take whole hours from totals per hour, and of all machines from rows that have
the sums of all; `_buckets` takes minutes from rows without keys: Grafana's panels of days and of large fleets read
little.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.rollups.packed import BARE, EVERY_MACHINE, FRESH, HOURS, MINUTES
from scope_server.store.rollups.tally import LARGEST
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.functions import show

_OF_TIME = {"since": "timestamptz", "until": "timestamptz DEFAULT 'infinity'"}
_OF_MACHINES = {"machines": "text[] DEFAULT NULL"}
_OF_STEPS = {"step": "interval DEFAULT '1 min'", **_OF_MACHINES}
_ARGUMENTS = {"totals": _OF_MACHINES, **dict.fromkeys(("steps", "distribution", "buckets"), _OF_STEPS)}
_VALUES = {"counts": "counts", "sums": "sums", "failed": "failed"}
_BUCKETS = {"bucket": "buckets", "counts": "bucket_counts"}
_MINUTE = "u.hour + u.minute * interval '1 minute'"
_WITHIN = f"{_MINUTE} >= $1 AND {_MINUTE} < $2"
# Hours with any minute of the time range, with all their minutes, and with some.
_TOUCHED = "r.hour > $1 - interval '1 hour' AND r.hour < $2"
_WHOLE = "r.hour >= $1 AND r.hour <= $2 - interval '1 hour'"
_CUT = f"{_TOUCHED} AND (r.hour < $1 OR r.hour > $2 - interval '1 hour')"
_EACH_MACHINE = f"r.machine <> {EVERY_MACHINE}"
_STEP_S = "extract(epoch FROM $3)::bigint"
_BY_HOURS = f"{_STEP_S} % 3600 = 0"


def show_functions(connection: psycopg.Connection[Any], table: StreamTable) -> None:
    """Creates or replaces the functions, in the open transaction."""
    for name, (returned, body, about) in _functions(table).items():
        arguments = _OF_TIME | _ARGUMENTS.get(name, {})
        show(connection, f"{table.name}_{name}", returned, body, about, arguments=arguments)


def _functions(table: StreamTable) -> dict[str, tuple[dict[str, str], sql.Composed, str]]:
    # By name: columns with types, body, and comment.
    rollup = table.rollup
    keys = dict.fromkeys(rollup.by, "text")
    who = {"machine_id": "text", "hostname": "text"}
    counted = f"count: {_meaning(table, rollup.count) if rollup.count else 'rows'}"
    summed = f"; sum: sum of {rollup.measured}, {_meaning(table, rollup.measured)}" if rollup.measured else ""
    failed = f"; failed: failures by {table.failures}" if table.failures else ""
    left_out = f"; only rows with {rollup.where}" if rollup.where else ""

    def about(*per: str) -> str:
        return f"{table.meaning}: totals per {', '.join((*per, *keys))}. {counted}{summed}{failed}{left_out}"

    values = dict.fromkeys(("count", "sum", "failed"), "bigint")
    of_all = "Of all machines (machine_id) unless some are given."
    found = {
        "minutes": ({"minute": "timestamptz", **who, **keys, **values}, _minutes(table), about("minute", "machine")),
        "hours": ({"hour": "timestamptz", **who, **keys, **values}, _hours(table), about("hour", "machine")),
        "totals": ({**keys, **values}, _totals(table), f"{about('time range')}. {of_all}"),
        "steps": (
            {"time": "timestamptz", **keys, **values},
            _steps(table),
            f"{about('step')}. time: start of the step, counted from 1970. {of_all}",
        ),
        "seconds": (
            {"second": "timestamptz", **who, "count": "bigint"},
            _seconds(table),
            f"{table.meaning}: count per second.{left_out.replace(';', '', 1)}",
        ),
    }
    if rollup.measured:
        buckets = {**keys, "at_least": "bigint", "count": "bigint"}
        in_twos = (
            f"{rollup.measured} of {table.name} in powers of two: `count` values are at least at_least and less than "
            "twice at_least (0 counts as 1). For a percentile: scope.percentile(0.99, at_least, count)."
        )
        of_steps = f"{in_twos} time: start of a step, counted from 1970. {of_all}"
        found["histogram"] = ({"minute": "timestamptz", **who, **buckets}, _histogram(table), in_twos)
        found["distribution"] = ({"time": "timestamptz", **buckets}, _distribution(table), of_steps)
        bare = {"time": "timestamptz", "at_least": "bigint", "count": "bigint"}
        found["buckets"] = (bare, _buckets(table), f"{of_steps} Of all groups together.")
    return found


def _meaning(table: StreamTable, column: str) -> str:
    return table.meanings.get(column, column)


def _minutes(table: StreamTable) -> sql.Composed:
    found = _within(table, "minutes", _keys(table) | _VALUES, _EACH_MACHINE)
    return _of_machines(table, _MINUTE, "u.counts, u.sums, u.failed", found)


def _hours(table: StreamTable) -> sql.Composed:
    found = _unnested(_keys(table) | _VALUES, _rows(table, HOURS, _TOUCHED, _EACH_MACHINE))
    return _of_machines(table, "u.hour", "u.counts, u.sums, u.failed", found)


def _histogram(table: StreamTable) -> sql.Composed:
    found = _within(table, "bucket_minutes", _keys(table, "bucket_") | _BUCKETS, _EACH_MACHINE)
    return _of_machines(table, _MINUTE, "1::bigint << u.bucket, u.counts", found)


def _totals(table: StreamTable) -> sql.Composed:
    by = sql.SQL(", ").join(map(sql.Identifier, table.rollup.by))
    # Without keys, there is one group, even of nothing.
    grouped = sql.SQL("GROUP BY {}").format(by) if table.rollup.by else sql.SQL("HAVING count(*) > 0")
    found = sql.SQL(
        "SELECT {by}sum(counts)::bigint AS counts, least(sum(sums), {largest})::bigint AS sums,"
        " sum(failed)::bigint AS failed FROM ({found}) AS p {grouped}"
    ).format(
        by=sql.SQL("{}, ").format(by) if table.rollup.by else by,
        largest=sql.Literal(LARGEST),
        found=_within(table, "minutes", _keys(table) | _VALUES, _machines("$3"), HOURS),
        grouped=grouped,
    )
    return _with_texts(table, "", "u.counts, u.sums, u.failed", found)


def _steps(table: StreamTable) -> sql.Composed:
    found = _of_steps(table, _keys(table) | _VALUES, "minutes", MINUTES)
    return _with_texts(table, "u.step, ", "u.counts, u.sums, u.failed", found)


def _distribution(table: StreamTable) -> sql.Composed:
    found = _of_steps(table, _keys(table, "bucket_") | _BUCKETS, "bucket_minutes", MINUTES)
    return _with_texts(table, "u.step, ", "1::bigint << u.bucket, u.counts", found)


def _buckets(table: StreamTable) -> sql.Composed:
    found = _of_steps(table, _BUCKETS, "bucket_minutes", BARE)
    return sql.SQL("SELECT u.step, 1::bigint << u.bucket, u.counts FROM ({}) AS u").format(found)


def _of_steps(table: StreamTable, arrays: Mapping[str, str], minutes: str, by_minutes: int) -> sql.Composed:
    # Whole hours from rows per hour, if the steps allow it; the others from the level that has minutes.
    by_minute = {"minute": minutes, **arrays}
    second = "u.begun + u.minute * 60"
    parts = (
        ("u.begun", arrays, HOURS, f"{_WHOLE} AND {_BY_HOURS}", ""),
        (second, by_minute, by_minutes, f"{_WHOLE} AND NOT {_BY_HOURS}", ""),
        (second, by_minute, by_minutes, _CUT, f" WHERE {_WITHIN}"),
    )
    found = [
        sql.SQL("SELECT {time} AS step, {names} FROM ({found}) AS u{where}").format(
            time=sql.SQL(f"to_timestamp(({at}) / {_STEP_S} * {_STEP_S})"),
            names=sql.SQL(", ").join(map(sql.Identifier, arrays)),
            found=_unnested(unnested, _begun(_rows(table, level, hours, _machines("$4"))), "r.hour, r.begun"),
            where=sql.SQL(where),
        )
        for at, unnested, level, hours, where in parts
    ]
    return sql.SQL(" UNION ALL ").join(found)


def _begun(rows: sql.Composed) -> sql.Composed:
    # With the hour's second since 1970. OFFSET 0 has it computed once a row, not for each of thousands of values.
    return sql.SQL("(SELECT r.*, extract(epoch FROM r.hour)::bigint AS begun FROM {} OFFSET 0) AS r").format(rows)


def _seconds(table: StreamTable) -> sql.Composed:
    second = sql.SQL("u.hour + (u.first_second + u.place - 1) * interval '1 second'")
    found = sql.SQL(
        "SELECT r.hour, r.machine, r.first_second, p.counts, p.place FROM (SELECT * FROM {rows}) AS r"
        " CROSS JOIN LATERAL unnest(r.per_second) WITH ORDINALITY AS p (counts, place) WHERE p.counts > 0"
    ).format(rows=_rows(table, MINUTES, _TOUCHED, _EACH_MACHINE))
    return sql.SQL(
        "SELECT {second}, m.machine_id, m.hostname, u.counts FROM ({found}) AS u"
        " LEFT JOIN store.machines AS m ON m.id = u.machine WHERE {second} >= $1 AND {second} < $2"
    ).format(second=second, found=found)


def _keys(table: StreamTable, prefix: str = "") -> dict[str, str]:
    return {name: f"{prefix}{name}" for name in table.rollup.by}


def _of_machines(table: StreamTable, time: str, values: str, found: sql.Composed) -> sql.Composed:
    before = f"{time}, m.machine_id, m.hostname, "
    return _with_texts(table, before, values, found, "LEFT JOIN store.machines AS m ON m.id = u.machine")


def _with_texts(table: StreamTable, before: str, values: str, found: sql.Composed, after: str = "") -> sql.Composed:
    # Texts are joined: a query that does not name a key leaves its join out, and one that does may hash all texts, in
    # place of a look-up for each of a hundred thousand groups.
    texts, joins = [], []
    for name in table.rollup.by:
        text, its = table.dimension(name).joined(sql.SQL("u.{}").format(sql.Identifier(name)), name)
        texts.append(sql.SQL("{}, ").format(text))
        joins += its
    return sql.SQL("SELECT {before}{texts}{values} FROM ({found}) AS u {joins} {after}").format(
        before=sql.SQL(before),
        texts=sql.Composed(texts),
        values=sql.SQL(values),
        found=found,
        joins=sql.SQL(" ").join(joins),
        after=sql.SQL(after),
    )


def _within(
    table: StreamTable, minutes: str, arrays: Mapping[str, str], machines: str, level: int = MINUTES
) -> sql.Composed:
    # Only the values of hours that are cut are compared with the time range one by one.
    by_minute = {"minute": minutes, **arrays}
    wanted = by_minute if level == MINUTES else arrays
    return sql.SQL("{whole} UNION ALL SELECT hour, machine, {names} FROM ({cut}) AS u WHERE {within}").format(
        whole=_unnested(wanted, _rows(table, level, _WHOLE, machines)),
        names=sql.SQL(", ").join(map(sql.Identifier, wanted)),
        cut=_unnested(by_minute, _rows(table, MINUTES, _CUT, machines)),
        within=sql.SQL(_WITHIN),
    )


def _unnested(arrays: Mapping[str, str], rows: sql.Composed, own: str = "r.hour, r.machine") -> sql.Composed:
    # The values of arrays, by the names that they get. unnest() after SELECT gives values one by one; after FROM it
    # would write those of a row to memory first.
    unnested = [
        sql.SQL("unnest(r.{}) AS {}").format(sql.Identifier(array), sql.Identifier(name))
        for name, array in arrays.items()
    ]
    return sql.SQL("SELECT {}, {} FROM {}").format(sql.SQL(own), sql.SQL(", ").join(unnested), rows)


def _rows(table: StreamTable, level: int, hours: str, machines: str) -> sql.Composed:
    where = f"r.level IN ({FRESH}, {level}) AND {hours} AND {machines}"
    return sql.SQL("rollups.{} AS r WHERE {}").format(sql.Identifier(table.name), sql.SQL(where))


def _machines(given: str) -> str:
    # Those in an array; without one, all: from the rows that have the sums of all, and from those not merged yet.
    return (
        f"({given} IS NULL AND (r.level = {FRESH} OR r.machine = {EVERY_MACHINE})"
        f" OR r.machine = ANY (ARRAY(SELECT id FROM store.machines WHERE machine_id = ANY ({given}))))"
    )
