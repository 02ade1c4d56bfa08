"""The SQL function scope.STREAM_flames of a stream with stacks: its flame graph, as Grafana's panel reads it."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.dimensions.declared import STACKS, of_kind
from scope_server.store.layout.contract import Record
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.functions import chosen, show

_COLUMNS = {"level": "integer", "value": "bigint", "self": "bigint", "label": "text"}
_ARGUMENTS = {
    "since": "timestamptz",
    "until": "timestamptz DEFAULT 'infinity'",
    "machines": "text[] DEFAULT NULL",
    "comms": "text[] DEFAULT NULL",
}
# Stacks are added up by key, and only then looked up. All conditions compare keys, too.
_QUERY = """
SELECT f.level, f.value, f.self, f.label
FROM (
    SELECT array_agg(s.stack) AS stacks, array_agg(s.weight) AS weights
    FROM (
        SELECT e.{stack} AS stack, sum(e.{weight}) AS weight
        FROM ({found}) AS e
        WHERE {chosen}
        GROUP BY e.{stack}
    ) AS s
) AS a CROSS JOIN LATERAL store.flame_graph(a.stacks, a.weights) AS f"""


def make(connection: psycopg.Connection[Any], table: StreamTable, columns: Sequence[Record]) -> None:
    """Creates or replaces the function, if the stream has stacks and a measured column, in the open transaction.

    Streams of states have none: a state is reported again and again, and must not be added up.
    """
    dimensions = {column["name"]: of_kind(column["kind"]) for column in columns}
    stacks = [name for name, dimension in dimensions.items() if dimension is STACKS]
    of_comm = dimensions.get("comm")
    weight = table.rollup.measured
    if not stacks or not weight or table.latest:
        return
    of_rows, of_blocks = table.layout.within(sql.SQL("$1"), sql.SQL("$2"))
    read = ("machine", stacks[0], weight, *(["comm"] if of_comm else []))
    query = sql.SQL(_QUERY).format(
        stack=sql.Identifier(stacks[0]),
        weight=sql.Identifier(weight),
        found=table.layout.rows(table.name, columns, of_rows, of_blocks, only=read),
        chosen=chosen("e", of_comm, "$3", "$4"),
    )
    about = (
        f"{table.meaning}: the flame graph of {weight}, {table.meanings[weight]}. Each node comes before those that it "
        "calls; level: its depth; value: its weight with all below; self: its own. Of all machines (machine_id) and "
        "commands unless some are given."
    )
    show(connection, f"{table.name}_flames", _COLUMNS, query, about, arguments=_ARGUMENTS)
