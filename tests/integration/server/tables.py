"""The catalogue's tables, also with a column that only another version of SCOPE has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa

from scope_bpf.catalogue.stream import fingerprint
from scope_bpf.catalogue.where import read_filter
from scope_bpf.probes import probes
from scope_server.store.reading.reader import EventQuery
from scope_server.store.schema.columns import StreamTable, stored_column, stream_tables
from scope_server.store.schema.migrate import migrate

TABLES = stream_tables(probes())


def migrated(conninfo: str, tables: Mapping[str, StreamTable] = TABLES) -> None:
    """Migrates a database to these tables."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        migrate(connection, tables.values())


def asked(stream: str = "syscall", where: str = "", **given: Any) -> EventQuery:
    """A query of a stream's rows, with an optional filter."""
    table = TABLES[stream]
    return EventQuery(table, read_filter(where, table.types) if where else None, **given)


def with_column(name: str, type_: pa.DataType, meaning: str = "") -> dict[str, StreamTable]:
    """The tables, with one more column in that of system calls."""
    known = TABLES["syscall"]
    schema = known.schema.append(pa.field(name, type_))
    changed = replace(
        known,
        schema=schema,
        fingerprint=fingerprint(schema),
        columns=(*known.columns, stored_column(name, type_)),
        meanings={**known.meanings, name: meaning},
    )
    return {**TABLES, "syscall": changed}
