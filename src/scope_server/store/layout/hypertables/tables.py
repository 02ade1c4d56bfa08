"""The hypertable of a stream, and what it needs of the database."""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from scope_server.errors import SchemaConflict
from scope_server.store.layout.contract import Record
from scope_server.store.schema.columns import BASE

ROWS = "rows"  # the schema
CHUNK = "6 hours"  # divides a day, so that a day can be dropped by its chunks
# A segment is decompressed alone. Within one, rows lie as pages ask for them.
_STORAGE = (
    "timescaledb.enable_columnstore, timescaledb.segmentby = 'machine, process', "
    "timescaledb.orderby = 'time DESC, batch DESC, ordinal DESC'"
)
# Questions of blocks are questions of batches here. Partitions to come copy these indexes.
_INDEXES = "; ".join(
    f"CREATE INDEX IF NOT EXISTS batches_stream_{time} ON store.batches (stream, {time})"
    for time in ("first_time", "last_time")
)


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Prepares a database for hypertables, in the open transaction.

    Raises:
        SchemaConflict: it lacks the extension.
    """
    if connection.execute("SELECT FROM pg_extension WHERE extname = 'timescaledb'").fetchone() is None:
        raise SchemaConflict(
            "layout hypertables needs TimescaleDB: install it, add timescaledb to shared_preload_libraries, restart "
            "PostgreSQL and run `CREATE EXTENSION timescaledb` in this database; or use the layout blocks"
        )
    connection.execute(_INDEXES.encode())


def creation(schema: str, stream: str, columns: Iterable[Record]) -> sql.Composed:
    """Statements that make a stream's hypertable."""
    table = sql.Identifier(schema, stream)
    base = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in BASE.items()]
    fields = sql.SQL(", ").join([*base, *map(_definition, columns)])
    return sql.SQL(
        "CREATE TABLE {table} ({fields});"
        " SELECT create_hypertable({name}::regclass, by_range('time', {chunk}::interval),"
        " create_default_indexes => false);"
        " CREATE INDEX ON {table} (time DESC); ALTER TABLE {table} SET ({storage})"
    ).format(
        table=table,
        fields=fields,
        name=sql.Literal(table.as_string(None)),
        chunk=sql.Literal(CHUNK),
        storage=sql.SQL(_STORAGE),
    )


def addition(schema: str, stream: str, columns: Sequence[Record]) -> sql.Composed:
    """Statements that add columns to it, each alone: TimescaleDB takes no more at once."""
    table = sql.Identifier(schema, stream)
    added = [sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(table, _definition(column)) for column in columns]
    return sql.SQL("; ").join(added)


def _definition(column: Record) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(column["name"]), sql.SQL(column["sql"]))
