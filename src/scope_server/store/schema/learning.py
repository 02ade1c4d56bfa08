"""Makes tables for streams that agents describe."""

import logging
from typing import Any

import psycopg

from scope_catalogue.description import MOST_COLUMNS
from scope_catalogue.stream import DescribedStream
from scope_server.errors import Rejected, SchemaConflict, StoreUnavailable
from scope_server.store.schema.descriptions import keep, recall
from scope_server.store.schema.migrate import apply_stream, lock
from scope_server.store.schema.tables import Tables

Connection = psycopg.Connection[Any]

MOST_STREAMS = 1000  # known ones; a machine that invents streams must not fill the database's catalogue
# A new column waits for all readers of its table, and all other readers wait behind it: not for long.
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
# Another server may know the stream from its catalogue.
_TAKEN = """
SELECT FROM (
SELECT FROM pg_class WHERE relname = %(name)s AND relnamespace IN ({schemas})
UNION ALL SELECT FROM pg_proc WHERE proname = %(name)s AND pronamespace IN ({schemas})
) AS found WHERE NOT EXISTS (SELECT FROM store.streams WHERE stream = %(name)s)""".format(
    schemas=", ".join(
        f"'{name}'::regnamespace" for name in ("scope", "fresh", "packed", "rows", "rollups", "latest", "ranked")
    )
)

_log = logging.getLogger(__name__)


def learn(conninfo: str, tables: Tables, stream: DescribedStream) -> None:
    """Makes the table of a described stream, or adds its unknown columns; then its rows can be stored.

    Raises:
        Rejected: the description contradicts what is known, cannot be stored, or there are too many streams or columns.
        StoreUnavailable: the database cannot be used now.
    """
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            _learn(connection, tables, stream)
    except SchemaConflict as error:
        raise Rejected("other_schema", str(error)) from None
    except (psycopg.OperationalError, psycopg.InternalError) as error:  # gone, locked by others, full, read-only
        raise StoreUnavailable(_first_line(error)) from error
    except psycopg.Error as error:
        raise Rejected(
            "other_schema", f"no table can be made for stream '{stream.name}': {_first_line(error)}"
        ) from error


def _learn(connection: Connection, tables: Tables, stream: DescribedStream) -> None:
    with connection.transaction():
        connection.execute(_LOCK_TIMEOUT)
        lock(connection)
        recall(connection, tables)
        if not tables.lack(stream):
            return
        table = tables.with_stream(stream)
        _check_room(connection, tables, stream, len(table.schema))
        apply_stream(connection, table)
        keep(connection, stream)
    tables.add(stream)
    _log.info("learnt a stream from its description", extra={"stream": stream.name, "columns": len(table.schema)})


def _check_room(connection: Connection, tables: Tables, stream: DescribedStream, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise SchemaConflict(f"stream '{stream.name}' would have {columns} columns; at most {MOST_COLUMNS} are allowed")
    if stream.name in tables:
        return
    if len(tables) >= MOST_STREAMS:
        raise SchemaConflict(f"{len(tables)} streams are known already; at most {MOST_STREAMS} are allowed")
    if connection.execute(_TAKEN, {"name": stream.name}).fetchone() is not None:
        raise SchemaConflict(f"a stream cannot be named '{stream.name}': the database has something of this name")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
