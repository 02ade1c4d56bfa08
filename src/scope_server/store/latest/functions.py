"""The SQL functions scope.STREAM_now(), with a stream's states, and scope.STREAM_largest(), with groups of them."""

from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.latest.groups import largest_groups
from scope_server.store.latest.layout import Layout
from scope_server.store.latest.shown import joins, listed, of, readable, who
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.functions import chosen, show

_WHO = {"machine_id": "text", "hostname": "text"}
_PROCESS = {"pid": "bigint", "start_ns": "bigint"}
_NOW = """
SELECT l.time, {who}{columns}
FROM latest.{stream} AS l {joins}
WHERE {held}"""
_LARGEST = "SELECT found.time, {columns}, found.states FROM ({groups}) AS found"
_ARGUMENTS = {"most": "bigint DEFAULT 100", "machines": "text[] DEFAULT NULL", "comms": "text[] DEFAULT NULL"}


def make_functions(connection: psycopg.Connection[Any], table: StreamTable, layout: Layout) -> None:
    """Creates or replaces the functions, in the open transaction."""
    _make_now(connection, table, layout)
    _make_largest(connection, table, layout)


def _make_now(connection: psycopg.Connection[Any], table: StreamTable, layout: Layout) -> None:
    apart = tuple(dict.fromkeys((*layout.latest.by, *layout.latest.key)))
    other = [column.name for column in layout.columns if column.name not in apart]
    query = sql.SQL(_NOW).format(
        who=who(layout),
        columns=listed([*(readable(layout, "l", name) for name in apart), *(of("l", name) for name in other)]),
        stream=sql.Identifier(layout.stream),
        joins=joins(layout, "l", apart),
        held=layout.held("l"),
    )
    columns = [*apart, *other]
    about = "the newest row of each state that has not ended; true at its time."
    show(
        connection,
        f"{table.name}_now",
        {"time": "timestamptz", **_types(table, layout, columns)},
        query,
        f"{table.meaning}: {about} {_said(table, columns)}",
        arguments={},
    )


def _make_largest(connection: psycopg.Connection[Any], table: StreamTable, layout: Layout) -> None:
    latest = layout.latest
    columns = [*latest.by, *layout.ended, *latest.totals, *latest.means]
    types = _types(table, layout, columns)
    query = sql.SQL(_LARGEST).format(
        columns=listed([of("found", name) for name in types]),
        groups=largest_groups(
            layout,
            most=sql.SQL("$1"),
            since=sql.SQL("'-infinity'"),
            conditions=chosen("g", layout.column("comm").dimension if "comm" in latest.by else None, "$2", "$3"),
            by_day=True,
        ),
    )
    about = (
        f"the largest groups of states that have not ended, by {latest.totals[0]}; those of ended processes come last."
    )
    show(
        connection,
        f"{table.name}_largest",
        {"time": "timestamptz", **types, "states": "bigint"},
        query,
        f"{table.meaning}: {about} {_said(table, columns)}",
        arguments=_ARGUMENTS,
    )


def _types(table: StreamTable, layout: Layout, columns: list[str]) -> dict[str, str]:
    """The columns that a function returns, with machine and process first, and their types."""
    types = {**_WHO, **(_PROCESS if layout.of_processes else {})}
    for name in columns:
        types[name] = "text" if name in table.keyed else layout.sql_type(name).removesuffix(" NOT NULL")
    return types


def _said(table: StreamTable, columns: list[str]) -> str:
    return "; ".join(f"{name}: {table.meanings[name]}" for name in columns)
