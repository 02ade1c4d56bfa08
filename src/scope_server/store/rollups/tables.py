"""The rollups' tables."""

from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.rollups.functions import show_functions
from scope_server.store.rollups.packed import FRESH
from scope_server.store.schema.columns import OF_ROLLUP, StreamTable, keys_of_rollup

_MEANINGS = {
    "hour": "start of the hour",
    "machine": "key in store.machines; 0 in rows for all machines",
    "groups": "number of groups",
    "first_second": "second of the hour at which per_second starts",
    "level": "0: from one transaction; 1: merged, per minute; 2: merged, per hour; 3: merged, per minute, without keys",
    "minutes": "minute of the hour, per group",
    "counts": "count per group",
    "sums": "sum per group",
    "failed": "failures per group",
    "bucket_minutes": "minute of the hour, per bucket of the histograms",
    "buckets": "bucket numbers; bucket b has the values from 2**b to 2**(b+1)",
    "bucket_counts": "count per bucket",
    "per_second": "count per second",
}


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
    show_functions(connection, table)


def _comments(table: StreamTable, relation: sql.Identifier) -> list[sql.Composed]:
    about = f"{table.meaning}: totals. Rows have arrays; use scope.{table.name}_minutes(since, until) instead."
    said = dict(_MEANINGS)
    for name in table.rollup.by:
        of_groups, of_buckets = keys_of_rollup(name)
        key = f"key in store.{table.dimension(name).table}"
        said |= {of_groups: f"{key}, per group", of_buckets: f"{key}, per bucket"}
    return [
        sql.SQL("COMMENT ON TABLE {} IS {}").format(relation, sql.Literal(about)),
        *(
            sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(relation, sql.Identifier(name), sql.Literal(meaning))
            for name, meaning in said.items()
        ),
    ]
