"""Whether a database's tables are as a server of this version left them, so that a start need not look at each.

Comparing each table, view and function takes longer than all else of a start. Instead, a digest of what the schema is
made from is kept in the database, with one of what is there: the transactions that last changed each object.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from scope_server import store
from scope_server.store.schema.columns import StreamTable

Connection = psycopg.Connection[Any]

_SCHEMAS = ["store", "scope", "fresh", "packed", "rows", "rollups", "latest", "ranked"]
# Without the partitions of days, which come and go; the first one changes the row of its table.
_FOUND = """
WITH relations AS (
    SELECT c.oid, c.relname, c.relkind FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (%(schemas)s) AND NOT c.relispartition
), objects (kind, id, part, state) AS (
    SELECT 1, oid, 0, concat(relkind, relname) FROM relations
    UNION ALL SELECT 2, a.attrelid, a.attnum, a.xmin::text FROM pg_attribute AS a
    JOIN relations AS r ON r.oid = a.attrelid
    UNION ALL SELECT 3, w.oid, 0, w.xmin::text FROM pg_rewrite AS w JOIN relations AS r ON r.oid = w.ev_class
    UNION ALL SELECT 4, t.oid, 0, t.xmin::text FROM pg_trigger AS t JOIN relations AS r ON r.oid = t.tgrelid
    UNION ALL SELECT 5, p.oid, 0, p.xmin::text FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = ANY (%(schemas)s)
)
SELECT sum(hashtextextended(concat_ws(' ', kind, id, part, state), 0)::numeric)::text FROM objects
"""


def is_prepared(connection: Connection, tables: Mapping[str, StreamTable]) -> bool:
    """Whether nothing has changed since `note`: neither this code, nor the streams, nor the database's objects."""
    noted = connection.execute("SELECT wanted, found FROM store.prepared").fetchone()
    return noted == (_wanted(tables), _found(connection))


def note(connection: Connection, tables: Mapping[str, StreamTable]) -> None:
    """Notes that the database is as this code makes it for these streams, in the open transaction."""
    connection.execute("DELETE FROM store.prepared")
    connection.execute(
        "INSERT INTO store.prepared (wanted, found) VALUES (%s, %s)", [_wanted(tables), _found(connection)]
    )


def _found(connection: Connection) -> str:
    row = connection.execute(_FOUND, {"schemas": _SCHEMAS}).fetchone()
    return str(row and row[0])


def _wanted(tables: Mapping[str, StreamTable]) -> str:
    digests = (tables[name].described.digest for name in sorted(tables))
    return hashlib.sha256(" ".join((_code(), *digests)).encode()).hexdigest()


@cache
def _code() -> str:
    """A digest of the code that makes tables, views and functions."""
    digest = hashlib.sha256()
    for file in sorted(file for file in Path(store.__path__[0]).rglob("*") if file.suffix in (".py", ".sql")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
