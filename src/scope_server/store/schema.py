"""Brings a database to this server's schema: numbered SQL files first, then the catalogue's tables and views."""

import logging
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from scope_server.errors import SchemaConflict
from scope_server.store.columns import BASE, Kind, StoredColumn, StreamTable

Connection = psycopg.Connection[Any]
Record = dict[str, str]  # of a column, as kept in scope.streams

_LOCK = 0x5C09E  # servers that start together migrate one after the other
_WIDTHS = {"bigint": 8, "double precision": 8, "integer": 4, "real": 4, "smallint": 2, "boolean": 1}
_log = logging.getLogger(__name__)


def migrate(connection: Connection, tables: Iterable[StreamTable]) -> None:
    """Applies what the database lacks, in one transaction.

    Raises:
        SchemaConflict: the database was made by a newer server, or a column's type has changed.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        _apply_files(connection)
        for table in tables:
            _apply_stream(connection, table)


def migrations() -> dict[int, str]:
    """The numbered SQL files' texts by version, in order."""
    folder = files("scope_server.store") / "migrations"
    found = {int(file.name[:4]): file.read_text() for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(found.items()))


def _apply_files(connection: Connection) -> None:
    connection.execute("CREATE SCHEMA IF NOT EXISTS scope")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS scope.schema_versions"
        " (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
    )
    applied = {version for (version,) in connection.execute("SELECT version FROM scope.schema_versions")}
    known = migrations()
    newer = sorted(applied - set(known))
    if newer:
        raise SchemaConflict(
            f"the database is at schema version {newer[-1]}, this server knows {max(known)}; run the newer server"
        )
    for version, text in known.items():
        if version not in applied:
            connection.execute(text.encode())
            connection.execute("INSERT INTO scope.schema_versions (version) VALUES (%s)", [version])
            _log.info("schema migrated", extra={"version": version})


def _apply_stream(connection: Connection, table: StreamTable) -> None:
    last = connection.execute(
        "SELECT version, fingerprint, columns FROM scope.streams WHERE stream = %s ORDER BY version DESC LIMIT 1",
        [table.name],
    ).fetchone()
    version, fingerprint, columns = last or (0, "", [])
    if fingerprint == table.fingerprint:
        return
    added = _added(table, columns)
    if last is None:
        _create(connection, table)
    else:
        for column in added:
            connection.execute(
                sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(_relation("events", table.name), _definition(column))
            )
    columns = [*columns, *map(_record, added)]
    _view(connection, table, columns)
    connection.execute(
        "INSERT INTO scope.streams (stream, version, probe, fingerprint, columns) VALUES (%s, %s, %s, %s, %s)",
        [table.name, version + 1, table.probe, table.fingerprint, Jsonb(columns)],
    )
    _log.info("stream's table ready", extra={"stream": table.name, "version": version + 1, "added": len(added)})


def _added(table: StreamTable, columns: list[Record]) -> list[StoredColumn]:
    known = {column["name"]: column for column in columns}
    for column in table.columns:
        before = known.get(column.name)
        if before and (before["sql"], before["kind"]) != (column.sql, column.kind.value):
            raise SchemaConflict(
                f"stream '{table.name}': column '{column.name}' is {before['type']} in the database and {column.arrow} "
                "in the catalogue; give the changed column another name"
            )
    return [column for column in table.columns if column.name not in known]


def _create(connection: Connection, table: StreamTable) -> None:
    # Widest first, so that PostgreSQL pads as little as it can.
    columns = sorted(table.columns, key=lambda column: -_WIDTHS.get(column.sql, 0))
    wide = [column for column in columns if _WIDTHS.get(column.sql) == 8]
    rest = [column for column in columns if _WIDTHS.get(column.sql) != 8]
    base = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in BASE.items()]
    definitions = [*base[:3], *map(_definition, wide), *base[3:], *map(_definition, rest)]
    relation = _relation("events", table.name)
    connection.execute(
        sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (time)").format(relation, sql.SQL(", ").join(definitions))
    )
    connection.execute(sql.SQL("CREATE INDEX ON {} USING brin (time)").format(relation))


def _view(connection: Connection, table: StreamTable, columns: list[Record]) -> None:
    # Columns that came later stand last: CREATE OR REPLACE VIEW allows no other place, and keeps views built on it.
    query = joined(sql.SQL("SELECT * FROM {}").format(_relation("events", table.name)), columns, table.of_processes)
    connection.execute(sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(_relation("scope", table.name), query))


def joined(rows: sql.Composable, columns: Iterable[Record], of_processes: bool) -> sql.Composed:
    """A query of `rows`, rows of an event table, with keys replaced by what they stand for."""
    shown: list[sql.Composable] = []
    joins: list[sql.Composable] = []
    for column in columns:
        name = sql.Identifier(column["name"])
        if column["kind"] == Kind.NAME.value:
            alias = sql.Identifier(f"{column['name']} name")  # no column has a blank in its name
            joins.append(sql.SQL("LEFT JOIN scope.names AS {a} ON {a}.id = e.{n}").format(a=alias, n=name))
            shown.append(sql.SQL("{}.text AS {}").format(alias, name))
        else:
            shown.append(sql.SQL("e.{}").format(name))
    return sql.SQL(
        "SELECT e.time, e.ktime_ns, m.machine_id, m.hostname, t.task_id, {process}e.batch, e.ordinal, "
        "{shown} FROM ({rows}) AS e "
        "LEFT JOIN scope.ledger AS l ON l.id = e.batch "
        "LEFT JOIN scope.tasks AS t ON t.id = l.task "
        "LEFT JOIN scope.machines AS m ON m.id = l.machine "
        "LEFT JOIN scope.processes AS p ON p.id = e.process {joins}"
    ).format(
        process=sql.SQL("p.pid, p.start_ns, " if of_processes else ""),
        shown=sql.SQL(", ").join(shown),
        rows=rows,
        joins=sql.SQL(" ").join(joins),
    )


def _record(column: StoredColumn) -> Record:
    return {"name": column.name, "type": str(column.arrow), "sql": column.sql, "kind": column.kind.value}


def _definition(column: StoredColumn) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.sql))


def _relation(schema: str, name: str) -> sql.Identifier:
    return sql.Identifier(schema, name)
