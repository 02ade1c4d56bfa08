"""The entries of dimensions that states refer to: a sweep keeps them."""

from typing import Any

import psycopg

from scope_server.store.dimensions.dimension import Dimension

Connection = psycopg.Connection[tuple[Any, ...]]

# Reads only the database: it may have streams that this server does not know.
_COLUMNS = """
SELECT c.relname, a.attname
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN (
    SELECT DISTINCT s.stream, e ->> 'name' AS name, e ->> 'kind' AS kind
    FROM store.streams s, jsonb_array_elements(s.columns) e
) k ON k.stream = c.relname AND k.name = a.attname
WHERE c.relnamespace = 'latest'::regnamespace AND c.relkind = 'r'
  AND coalesce(k.kind, a.attname) = %s"""


def references(connection: Connection, dimension: Dimension) -> str:
    """A query of all keys of this dimension that states refer to, as `id`; empty if there are none.

    Raises:
        psycopg.Error: the database went away.
    """
    columns = connection.execute(_COLUMNS, [dimension.kind]).fetchall()
    return " UNION ALL ".join(f'SELECT "{column}" AS id FROM latest."{table}"' for table, column in columns)
