"""The descriptions that a database's servers have learnt from agents, kept for all of them."""

import logging
from typing import Any

import psycopg
from psycopg.types.json import Json

from scope_catalogue.encoding import from_json, to_json
from scope_catalogue.stream import DescribedStream
from scope_server.errors import SchemaConflict
from scope_server.store.schema.tables import Tables

Connection = psycopg.Connection[Any]

_log = logging.getLogger(__name__)


def keep(connection: Connection, stream: DescribedStream) -> None:
    """Keeps a description, in the open transaction."""
    connection.execute(
        "INSERT INTO store.descriptions (stream, description) VALUES (%s, %s)", [stream.name, Json(to_json(stream))]
    )


def keep_lacking(connection: Connection, tables: Tables) -> None:
    """Keeps the added descriptions that the database lacks, since it was restored from an older copy."""
    kept = [
        from_json(DescribedStream, description)
        for (description,) in connection.execute("SELECT description FROM store.descriptions")
    ]
    for stream in tables.learnt():
        if stream not in kept:
            keep(connection, stream)


def recall(connection: Connection, tables: Tables) -> None:
    """Adds all streams and columns that this or another server of the database has learnt."""
    for (description,) in connection.execute("SELECT description FROM store.descriptions ORDER BY id"):
        add(tables, description)


def is_learnt(connection: Connection, stream: str, column: str, type_: str) -> bool:
    """Whether a column of this type was made because an agent described it."""
    learnt = connection.execute(
        "SELECT FROM store.descriptions, json_array_elements(description -> 'columns') AS c"
        " WHERE stream = %s AND c ->> 'name' = %s AND c ->> 'type' = %s",
        [stream, column, type_],
    )
    return learnt.fetchone() is not None


def add(tables: Tables, description: Any) -> None:
    """Adds a kept description. One that contradicts the catalogue is left out: its column stays, set aside."""
    stream = from_json(DescribedStream, description)
    try:
        if tables.lack(stream):
            tables.add(stream)
    except SchemaConflict as error:
        about = {"stream": stream.name, "reason": str(error)}
        _log.warning("an agent's description contradicts the catalogue", extra=about)
