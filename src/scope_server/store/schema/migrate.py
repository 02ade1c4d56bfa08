"""Brings a database to this server's schema: numbered SQL files first, then the catalogue's tables and views."""

import logging
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from scope_server.errors import SchemaConflict
from scope_server.store.latest import tables as latest
from scope_server.store.layout.choice import settle
from scope_server.store.layout.contract import Record
from scope_server.store.rollups import tables as rollups
from scope_server.store.schema import flames
from scope_server.store.schema.columns import StoredColumn, StreamTable
from scope_server.store.schema.conflicts import set_aside
from scope_server.store.schema.descriptions import keep_lacking, recall
from scope_server.store.schema.prepared import is_prepared, note
from scope_server.store.schema.tables import Tables
from scope_server.store.schema.views import comments, digest, function, view

Connection = psycopg.Connection[Any]

_LOCK = 0x5C09E
_log = logging.getLogger(__name__)


def migrate(connection: Connection, tables: Tables) -> None:
    """Applies missing migrations, in one transaction; adds the streams that agents have described.

    Raises:
        SchemaConflict: a newer or a too old server made the database, or a column's type has changed; or the
            rows of the database have another layout.
    """
    with connection.transaction():
        lock(connection)
        _apply_files(connection)
        settle(connection, tables.layout)
        recall(connection, tables)
        keep_lacking(connection, tables)
        if is_prepared(connection, tables):
            return
        for table in tables.values():
            apply_stream(connection, table)
        note(connection, tables)


def lock(connection: Connection) -> None:
    """Waits until no other server changes the schema; until the end of the open transaction, others wait."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def migrations() -> dict[int, str]:
    """The texts of the numbered SQL files by version, in order."""
    folder = files("scope_server.store.schema") / "migrations"
    found = {int(file.name[:4]): file.read_text() for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(found.items()))


def _apply_files(connection: Connection) -> None:
    if _exists(connection, "scope", "schema_versions"):
        raise SchemaConflict(
            "the database is of an old SCOPE version whose tables cannot be used; use another database, or drop the "
            "schemas scope and events in this one"
        )
    connection.execute("CREATE SCHEMA IF NOT EXISTS store")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS store.schema_versions"
        " (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
    )
    applied = {version for (version,) in connection.execute("SELECT version FROM store.schema_versions")}
    known = migrations()
    newer = sorted(applied - set(known))
    if newer:
        raise SchemaConflict(
            f"the database is at schema version {newer[-1]}, this server knows {max(known)}; run the newer server"
        )
    for version, text in known.items():
        if version not in applied:
            connection.execute(text.encode())
            connection.execute("INSERT INTO store.schema_versions (version) VALUES (%s)", [version])
            _log.info("schema migrated", extra={"version": version})


def apply_stream(connection: Connection, table: StreamTable) -> None:
    """Makes or extends the tables and views of a stream, in the open transaction.

    Raises:
        SchemaConflict: the catalogue has changed the type of a column.
    """
    versions = connection.execute(
        "SELECT version, fingerprint, columns, shown FROM store.streams WHERE stream = %s ORDER BY version",
        [table.name],
    ).fetchall()
    version, _, columns, shown = versions[-1] if versions else (0, "", [], "")
    columns = set_aside(connection, table, columns)
    known = {column["name"] for column in columns}
    added = [_record(column) for column in table.columns if column.name not in known]
    unknown = known - {column.name for column in table.columns}
    if unknown:
        about = {"stream": table.name, "columns": sorted(unknown)}
        _log.warning("the database has columns that this server does not know; is it older?", extra=about)
    columns = [*columns, *added]
    if added:
        _keep_readers_out(connection, table.name)
    for schema in table.layout.kept:
        if not _exists(connection, schema, table.name):
            connection.execute(table.layout.creation(schema, table.name, columns))
        elif added:
            connection.execute(table.layout.addition(schema, table.name, added))
    if table.fingerprint not in {fingerprint for _, fingerprint, _, _ in versions}:
        version += 1
        connection.execute(
            "INSERT INTO store.streams (stream, version, probe, fingerprint, columns) VALUES (%s, %s, %s, %s, %s)",
            [table.name, version, table.probe, table.fingerprint, Jsonb(columns)],
        )
        _log.info("stream's table ready", extra={"stream": table.name, "version": version, "added": len(added)})
    _show(connection, table, columns, version, shown)
    rollups.make(connection, table)
    latest.make(connection, table)
    flames.make(connection, table, columns)


def _keep_readers_out(connection: Connection, name: str) -> None:
    # A reader locks the view, then the tables: one that has only the first would deadlock with who has only the second.
    if connection.execute("SELECT 1 FROM pg_views WHERE schemaname = 'scope' AND viewname = %s", [name]).fetchone():
        view_name = sql.Identifier("scope", name)
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(view_name))


def _show(connection: Connection, table: StreamTable, columns: Sequence[Record], version: int, shown: str) -> None:
    # Only if changed: replacing a view waits for all its readers.
    name, query = sql.Identifier("scope", table.name), view(table, columns)
    of_table, of_view = comments(table, columns)
    of_time = function(table, columns)
    made = digest(query, of_time, of_table, of_view)
    if made == shown and _exists(connection, "scope", table.name):
        return
    connection.execute(of_table)
    replace = sql.SQL("CREATE OR REPLACE VIEW {} AS {}; {}").format(name, query, of_time)
    anew = sql.SQL("DROP FUNCTION IF EXISTS {}(timestamptz, timestamptz); DROP VIEW IF EXISTS {}; {}").format(
        name, name, replace
    )
    for statement in (replace, anew):
        try:
            with connection.transaction():
                connection.execute(statement)
                connection.execute(of_view)
            break
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            reason = str(error).splitlines()[0]
    else:
        # Another object has this name, or other objects depend on the changed view.
        _log.warning("a stream's view was not updated", extra={"view": f"scope.{table.name}", "reason": reason})
        return
    connection.execute(
        "UPDATE store.streams SET shown = %s WHERE stream = %s AND version = %s", [made, table.name, version]
    )


def _exists(connection: Connection, schema: str, name: str) -> bool:
    found = connection.execute("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))", [schema, name]).fetchone()
    return bool(found and found[0])


def _record(column: StoredColumn) -> Record:
    return {"name": column.name, "type": str(column.arrow), "sql": column.sql, "kind": column.recorded_kind}
