"""TimescaleDB, which is in no registry: tests use a database that the tester names, or skip."""

import itertools
import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

NAMED = "SCOPE_TEST_TIMESCALE"
_numbers = itertools.count()


def lacking() -> str:
    """Why there is no TimescaleDB; empty if there is."""
    if os.environ.get(NAMED):
        return ""
    return f"no TimescaleDB: {NAMED} is not set to the connection string of a database of a PostgreSQL that has it"


def databases(template: str | None = None) -> Iterator[str]:
    """The connection string of a new database with the extension, which is dropped afterwards. Skips without one.

    Args:
        template: the connection string of a database to copy.
    """
    if reason := lacking():
        pytest.skip(reason)
    at = os.environ[NAMED]
    name = f"scope_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(at, autocommit=True) as connection:
        copied = ""
        if template:
            original = str(psycopg.conninfo.conninfo_to_dict(template)["dbname"])
            copied = f" TEMPLATE {original}"
            # TimescaleDB keeps a worker in each database that takes connections, and would keep this from being copied.
            connection.execute(f"ALTER DATABASE {original} ALLOW_CONNECTIONS false".encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", [original]
            )
        connection.execute(f"CREATE DATABASE {name}{copied} STRATEGY file_copy".encode())
        made = make_conninfo(at, dbname=name)
        try:
            if not template:
                with psycopg.connect(made, autocommit=True) as inside:
                    inside.execute("CREATE EXTENSION timescaledb")
            yield made
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
