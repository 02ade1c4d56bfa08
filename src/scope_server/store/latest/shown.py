"""States in readable form, with keys replaced by their texts, and the functions scope.STREAM_now()."""

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.latest.layout import Layout
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.functions import show
from scope_server.store.schema.views import IDENTITY

_WHO = {"machine_id": "text", "hostname": "text"}
_PROCESS = {"pid": "bigint", "start_ns": "bigint"}
_NOW = """
SELECT l.time, {who}{columns}
FROM latest.{stream} AS l {joins}
WHERE {held}"""


def who(layout: Layout) -> sql.Composed:
    """The columns with machine and process, each followed by a comma."""
    return sql.SQL("m.machine_id, m.hostname, {}").format(sql.SQL(IDENTITY if layout.of_processes else ""))


def readable(layout: Layout, rows: str, name: str) -> sql.Composed:
    """A readable column of `rows` that identifies states or groups."""
    column = layout.column(name)
    if column.dimension:
        text, _ = column.dimension.joined(of(rows, name), name)
        return sql.SQL("{} AS {}").format(text, sql.Identifier(name))
    return sql.SQL("nullif({}, {}) AS {}").format(of(rows, name), layout.absent(name), sql.Identifier(name))


def joins(layout: Layout, rows: str, names: Iterable[str]) -> sql.Composed:
    """The joins that `who` and `readable` need."""
    join = sql.SQL("LEFT JOIN store.{} AS {a} ON {a}.id = {}")
    of_who = {"m": ("machines", "machine"), "p": ("processes", "process")}
    found: list[sql.Composable] = [
        join.format(sql.Identifier(table), of(rows, key), a=sql.Identifier(a)) for a, (table, key) in of_who.items()
    ]
    for name in names:
        if dimension := layout.column(name).dimension:
            found += dimension.joined(of(rows, name), name)[1]
    return sql.SQL(" ").join(found)


def make_function(connection: psycopg.Connection[Any], table: StreamTable, layout: Layout) -> None:
    """Creates scope.STREAM_now(), with a row per state that has not ended, in the open transaction."""
    apart = tuple(dict.fromkeys((*layout.latest.by, *layout.latest.key)))
    other = [column.name for column in layout.columns if column.name not in apart]
    query = sql.SQL(_NOW).format(
        who=who(layout),
        columns=listed([*(readable(layout, "l", name) for name in apart), *(of("l", name) for name in other)]),
        stream=sql.Identifier(layout.stream),
        joins=joins(layout, "l", apart),
        held=layout.held("l"),
    )
    returned = {"time": "timestamptz", **_WHO, **(_PROCESS if layout.of_processes else {})}
    for name in (*apart, *other):
        returned[name] = "text" if name in table.keyed else layout.sql_type(name).removesuffix(" NOT NULL")
    said = "; ".join(f"{name}: {table.meanings[name]}" for name in (*apart, *other))
    about = f"{table.meaning}: the newest row of each state that has not ended; true at its time. {said}"
    show(connection, f"{table.name}_now", returned, query, about, arguments={})


def listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Joins parts with commas."""
    return sql.SQL(", ").join(parts)


def of(rows: str, name: str) -> sql.Composed:
    """A column of `rows`."""
    return sql.SQL("{}.{}").format(sql.Identifier(rows), sql.Identifier(name))
