"""One real PostgreSQL for all tests, a database of its own for each, and a server over it."""

import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.server.records import Line, lined
from tests.integration.server.running import Server, running

from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """One PostgreSQL for all tests; the socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder, PrivatePostgres(Path(folder) / "pg") as started:
        yield started


@pytest.fixture
def database(postgres: PrivatePostgres) -> str:
    """The connection string of an empty database."""
    name = f"test_{next(_numbers)}"
    postgres.ensure_database(name)
    return postgres.conninfo(name)


@pytest.fixture
async def line(database: str) -> AsyncIterator[Line]:
    """A server's line from an agent's stream to the test's database."""
    async with lined(database) as started:
        yield started


@pytest.fixture
def upkeep(line: Line) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the line's database as upkeep has it."""
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        yield connection


@pytest.fixture
def start_server(database: str, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Server]]:
    """Runs a server over the test's database for an `async with` block; takes settings."""

    def start(prepared: bool = True, **changes: Any) -> AbstractAsyncContextManager[Server]:
        given = {"database": database, "http": "127.0.0.1:0", "ingest": "127.0.0.1:0", **changes}
        return running(Settings(token_file=tmp_path / "token", **given), prepared)

    return start
