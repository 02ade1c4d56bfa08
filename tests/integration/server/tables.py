"""The catalogue's tables, also with a column that only another version of SCOPE has."""

from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa

from scope_catalogue.catalogue import streams
from scope_catalogue.stream import DescribedStream, TypedColumn
from scope_catalogue.where import read_filter
from scope_server.store.reading.reader import EventQuery
from scope_server.store.schema.migrate import migrate
from scope_server.store.schema.tables import Tables

TABLES = Tables(streams().values())


def migrated(conninfo: str, tables: Tables = TABLES) -> None:
    """Migrates a database to these tables."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        migrate(connection, tables)


def asked(stream: str = "syscall", where: str = "", **given: Any) -> EventQuery:
    """A query of a stream's rows, with an optional filter."""
    table = TABLES[stream]
    return EventQuery(table, read_filter(where, table.types) if where else None, **given)


def with_column(name: str, type_: pa.DataType, meaning: str = "") -> Tables:
    """The tables, with one more column in that of system calls."""
    return Tables({**streams(), "syscall": described_with(name, type_, meaning)}.values())


def described_with(name: str, type_: pa.DataType, meaning: str = "") -> DescribedStream:
    """The stream of system calls, with one more column."""
    known = streams()["syscall"]
    return replace(known, columns=(*known.columns, TypedColumn(meaning, name=name, type=str(type_))))
