"""Columns of the database that contradict the catalogue. One that an agent described must not stop the server."""

import logging
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg import sql

from scope_server.errors import SchemaConflict
from scope_server.store.layout.contract import Record
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.descriptions import is_learnt

Connection = psycopg.Connection[Any]

_log = logging.getLogger(__name__)


def set_aside(connection: Connection, table: StreamTable, columns: Sequence[Record]) -> list[Record]:
    """The columns of the database, after those that agents described were renamed if they contradict the table.

    Raises:
        SchemaConflict: the catalogue has changed the type of a column.
    """
    taken = {column["name"] for column in columns} | {column.name for column in table.columns}
    found = []
    for column in columns:
        now = table.column(column["name"])
        if now is None or (column["sql"], column["kind"]) == (now.sql, now.recorded_kind):
            found.append(column)
        elif is_learnt(connection, table.name, now.name, column["type"]):
            found.append({**column, "name": _renamed(connection, table, now.name, taken)})
        else:
            raise SchemaConflict(
                f"stream '{table.name}': column '{now.name}' is {column['type']} ({column['kind']}) in the database "
                f"and {now.arrow} ({now.recorded_kind}) in the catalogue; give the changed column another name"
            )
    return found


def _renamed(connection: Connection, table: StreamTable, column: str, taken: Collection[str]) -> str:
    free = next(name for number in count(2) if (name := f"{column}_{number}") not in taken)
    for schema in table.layout.kept:
        rename = sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}")
        connection.execute(
            rename.format(sql.Identifier(schema, table.name), sql.Identifier(column), sql.Identifier(free))
        )
    about = {"stream": table.name, "column": column, "renamed": free}
    _log.warning("a column that an agent described contradicts the catalogue, and was renamed", extra=about)
    return free
