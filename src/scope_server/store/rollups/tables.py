"""The rollups' tables, and SQL functions to read them."""

from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.rollups.packed import EVERY_MACHINE, FRESH, HOURS, MINUTES
from scope_server.store.schema.columns import OF_ROLLUP, StreamTable, keys_of_rollup
from scope_server.store.schema.functions import show

_MEANINGS = {
    "hour": "start of the hour",
    "machine": "key in store.machines; 0 in rows for all machines",
    "groups": "number of groups",
    "first_second": "second of the hour at which per_second starts",
    "level": "0: from one transaction; 1: merged, per minute; 2: merged, per hour",
    "minutes": "minute of the hour, per group",
    "counts": "count per group",
    "sums": "sum per group",
    "failed": "failures per group",
    "bucket_minutes": "minute of the hour, per bucket of the histograms",
    "buckets": "bucket numbers; bucket b has the values from 2**b to 2**(b+1)",
    "bucket_counts": "count per bucket",
    "per_second": "count per second",
}
_OF_TIME = {"since": "timestamptz", "until": "timestamptz DEFAULT 'infinity'"}


def make(connection: psycopg.Connection[Any], table: StreamTable) -> None:
    """Creates the missing parts of a stream's rollup, in the open transaction."""
    relation = sql.Identifier("rollups", table.name)
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(format('rollups.%%I', %s::text)) AND attnum > 0",
        [table.name],
    ).fetchall()
    there = {name for (name,) in found}
    wanted = OF_ROLLUP | {column: "bigint[]" for name in table.rollup.by for column in keys_of_rollup(name)}
    lacking = [
        sql.SQL(f"{{}} {type_}").format(sql.Identifier(name)) for name, type_ in wanted.items() if name not in there
    ]
    if not there:
        columns = sql.SQL(", ").join(lacking)
        connection.execute(sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (hour)").format(relation, columns))
        connection.execute(sql.SQL("CREATE INDEX ON {} (hour, machine)").format(relation))
        connection.execute(sql.SQL("CREATE INDEX ON {} (hour) WHERE level = {}").format(relation, FRESH))
    elif lacking:  # older totals have no such key
        added = sql.SQL(", ").join([sql.SQL("ADD COLUMN {}").format(column) for column in lacking])
        connection.execute(sql.SQL("ALTER TABLE {} {}").format(relation, added))
    if lacking:
        for statement in _comments(table, relation):
            connection.execute(statement)
    for name, (returned, body, about) in _functions(table).items():
        show(connection, f"{table.name}_{name}", returned, body, about, arguments=_OF_TIME)


def _comments(table: StreamTable, relation: sql.Identifier) -> list[sql.Composed]:
    about = f"{table.meaning}: totals. Rows have arrays; use scope.{table.name}_minutes(since, until) instead."
    said = dict(_MEANINGS)
    for name in table.rollup.by:
        of_groups, of_buckets = keys_of_rollup(name)
        key = f"key in store.{_dimension(table, name).table}"
        said |= {of_groups: f"{key}, per group", of_buckets: f"{key}, per bucket"}
    return [
        sql.SQL("COMMENT ON TABLE {} IS {}").format(relation, sql.Literal(about)),
        *(
            sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(relation, sql.Identifier(name), sql.Literal(meaning))
            for name, meaning in said.items()
        ),
    ]


def _functions(table: StreamTable) -> dict[str, tuple[dict[str, str], sql.Composed, str]]:
    # By name: columns with types, body, and comment.
    rollup = table.rollup
    keys = dict.fromkeys(rollup.by, "text")
    who = {"machine_id": "text", "hostname": "text"}
    counted = f"count: {_meaning(table, rollup.count) if rollup.count else 'rows'}"
    summed = f"; sum: sum of {rollup.measured}, {_meaning(table, rollup.measured)}" if rollup.measured else ""
    failed = f"; failed: failures by {table.failures}" if table.failures else ""
    left_out = f"; only rows with {rollup.where}" if rollup.where else ""
    by = "".join(f", {key}" for key in keys)

    def about(length: str) -> str:
        return f"{table.meaning}: totals per {length}, machine{by}. {counted}{summed}{failed}{left_out}"

    values = dict.fromkeys(("count", "sum", "failed"), "bigint")
    found = {
        "minutes": ({"minute": "timestamptz", **who, **keys, **values}, _groups(table, MINUTES), about("minute")),
        "hours": ({"hour": "timestamptz", **who, **keys, **values}, _groups(table, HOURS), about("hour")),
        "seconds": (
            {"second": "timestamptz", **who, "count": "bigint"},
            _seconds(table),
            f"{table.meaning}: count per second.{left_out.replace(';', '', 1)}",
        ),
    }
    if rollup.measured:
        found["histogram"] = (
            {"minute": "timestamptz", **who, **keys, "at_least": "bigint", "count": "bigint"},
            _histogram(table),
            f"{rollup.measured} of {table.name} in powers of two: `count` values are at least at_least and less than "
            "twice at_least (0 counts as 1). For a percentile: scope.percentile(0.99, at_least, count).",
        )
    return found


def _dimension(table: StreamTable, name: str) -> Dimension:
    column = table.column(name)
    assert column and column.dimension, name  # `stream_table` has checked it
    return column.dimension


def _meaning(table: StreamTable, column: str) -> str:
    return table.meanings.get(column, column)


def _rows(level: int) -> sql.Composed:
    levels = sql.SQL("r.level IN ({}, {})").format(FRESH, level)
    return sql.SQL("r.machine <> {every} AND {levels} AND r.hour > $1 - interval '1 hour' AND r.hour < $2").format(
        every=EVERY_MACHINE, levels=levels
    )


def _texts(table: StreamTable) -> tuple[sql.Composed, sql.Composed]:
    # In the target list, so that only queries that use a key do the lookup.
    shown = [_dimension(table, name).text_at(sql.SQL("u.{}").format(sql.Identifier(name))) for name in table.rollup.by]
    aliases = [sql.Identifier(name) for name in table.rollup.by]
    return _comma(shown), _comma(aliases)


def _comma(parts: list[Any]) -> sql.Composed:
    return sql.Composed([sql.SQL("{}, ").format(part) for part in parts])


def _groups(table: StreamTable, level: int) -> sql.Composed:
    shown, aliases = _texts(table)
    minute = sql.SQL("r.hour + u.minute * interval '1 minute'")
    whole = level == HOURS
    return sql.SQL(
        "SELECT {time}, m.machine_id, m.hostname, {shown}u.counts, u.sums, u.failed FROM rollups.{table} AS r"
        " CROSS JOIN LATERAL unnest(r.minutes, {arrays}r.counts, r.sums, r.failed)"
        " AS u (minute, {aliases}counts, sums, failed)"
        " LEFT JOIN store.machines AS m ON m.id = r.machine WHERE {rows}{within}"
    ).format(
        time=sql.SQL("r.hour") if whole else minute,
        shown=shown,
        arrays=_comma([sql.SQL("r.{}").format(sql.Identifier(name)) for name in table.rollup.by]),
        aliases=aliases,
        table=sql.Identifier(table.name),
        rows=_rows(level),
        within=sql.SQL("" if whole else " AND {m} >= $1 AND {m} < $2").format(m=minute),
    )


def _histogram(table: StreamTable) -> sql.Composed:
    shown, aliases = _texts(table)
    minute = sql.SQL("r.hour + u.minute * interval '1 minute'")
    return sql.SQL(
        "SELECT {minute}, m.machine_id, m.hostname, {shown}1::bigint << u.bucket, u.counts FROM rollups.{table} AS r"
        " CROSS JOIN LATERAL unnest(r.bucket_minutes, {arrays}r.buckets, r.bucket_counts)"
        " AS u (minute, {aliases}bucket, counts)"
        " LEFT JOIN store.machines AS m ON m.id = r.machine WHERE {rows} AND {minute} >= $1 AND {minute} < $2"
    ).format(
        minute=minute,
        shown=shown,
        arrays=_comma([sql.SQL("r.{}").format(sql.Identifier(f"bucket_{name}")) for name in table.rollup.by]),
        aliases=aliases,
        table=sql.Identifier(table.name),
        rows=_rows(MINUTES),
    )


def _seconds(table: StreamTable) -> sql.Composed:
    second = sql.SQL("r.hour + (r.first_second + u.place - 1) * interval '1 second'")
    return sql.SQL(
        "SELECT {second}, m.machine_id, m.hostname, u.counts FROM rollups.{table} AS r"
        " CROSS JOIN LATERAL unnest(r.per_second) WITH ORDINALITY AS u (counts, place)"
        " LEFT JOIN store.machines AS m ON m.id = r.machine"
        " WHERE u.counts > 0 AND {rows} AND {second} >= $1 AND {second} < $2"
    ).format(second=second, table=sql.Identifier(table.name), rows=_rows(MINUTES))
