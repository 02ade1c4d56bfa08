"""The descriptions that servers of a database have learnt from agents, kept for all of its servers."""

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


def recall(connection: Connection, tables: Tables) -> list[str]:
    """Adds the streams and columns that this or another server of the database has learnt; returns the streams' names.

    A description that contradicts this server's catalogue is left out: its columns stay in the database, unused.
    """
    found = []
    for (description,) in connection.execute("SELECT description FROM store.descriptions ORDER BY id"):
        stream = from_json(DescribedStream, description)
        try:
            if tables.lack(stream):
                tables.add(stream)
                found.append(stream.name)
        except SchemaConflict as error:
            about = {"stream": stream.name, "reason": str(error)}
            _log.warning("an agent's description contradicts the catalogue", extra=about)
    return found
