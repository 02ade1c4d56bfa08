"""The database role of programs that only read recorded data, such as Grafana.

People query the schema `scope`. Its views need no other right. PostgreSQL inlines its functions, which is what makes
them fast, and so the role may also read the tables behind them: rows, totals, states, and what these refer to. It may
read no table of accounts, tokens, certificates or the audit log, and may change nothing.

A role may change its own settings, and so lift its limits. Therefore it is marked, and the server ends its transactions
that last too long (`store/upkeep/readers.py`); for that, the owner of the tables is made a member of it.
"""

from typing import Any

import psycopg
from psycopg import sql

from scope_server.errors import InvalidSettings, SchemaConflict
from scope_server.store.dimensions.declared import of_parts, of_rows

ROWS = ("scope", "fresh", "packed", "rows", "rollups", "latest", "ranked")  # schemas of which it reads everything
_DIMENSIONS = tuple(one.table for one in (*of_rows(), *of_parts()))
REFERRED = ("machines", *_DIMENSIONS, "tasks", "runs", "batches")  # in schema store
LIMITS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "30s",
    "search_path": "scope",
    "timezone": "UTC",
    "jit": "off",  # compiling takes longer than the queries of a dashboard
}
CONNECTIONS = 20
MARK = "only reads what SCOPE recorded"  # its comment, which it cannot change


def make_reader(connection: psycopg.Connection[Any], name: str, password: str) -> None:
    """Makes the role, or gives it this password and these rights again, in one transaction.

    The connection's user must be allowed to make roles, and be the owner of the server's tables or a superuser.

    Raises:
        InvalidSettings: the role is another one's: it owns something or may log in as superuser.
        SchemaConflict: the database has no tables of a server.
        psycopg.Error: the user lacks rights.
    """
    with connection.transaction():
        found = connection.execute(
            "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'store'"
        ).fetchone()
        if found is None:
            raise SchemaConflict("the database has no tables of SCOPE; start the server with it first")
        role = sql.Identifier(name)
        about = connection.execute(
            "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls"
            " OR EXISTS (SELECT FROM pg_shdepend WHERE refobjid = pg_roles.oid AND deptype = 'o')"
            " FROM pg_roles WHERE rolname = %s",
            [name],
        ).fetchone()
        if about and about[0]:
            raise InvalidSettings(f"the role {name} exists and may do more than read; choose another name")
        statement = sql.SQL("{} ROLE {} LOGIN NOINHERIT CONNECTION LIMIT {} PASSWORD {}")
        hashed = sql.Literal(_hashed(connection, name, password))
        connection.execute(statement.format(sql.SQL("ALTER" if about else "CREATE"), role, CONNECTIONS, hashed))
        for setting, value in LIMITS.items():
            connection.execute(sql.SQL("ALTER ROLE {} SET {} = {}").format(role, sql.Identifier(setting), value))
        connection.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, MARK))
        connection.execute(sql.SQL("GRANT {} TO {}").format(role, sql.SQL(found[0])))
        # Temporary tables would be a way to fill the disk.
        database = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(database))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role))
        _grant(connection, role, found[0])


def _grant(connection: psycopg.Connection[Any], role: sql.Identifier, owner: str) -> None:
    for schema in map(sql.Identifier, ROWS):
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(schema, role))
        # Also on tables and views that come later, of new streams and days.
        connection.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} GRANT SELECT ON TABLES TO {}").format(
                sql.SQL(owner), schema, role
            )
        )
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA store TO {}").format(role))
    for table in REFERRED:
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(sql.Identifier("store", table), role))


def _hashed(connection: psycopg.Connection[Any], name: str, password: str) -> str:
    # Hashed here, so that the statement, which a log may show, has no password.
    return connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
