"""Fixtures: one real PostgreSQL for all tests of a process, a database for each test, and a server on it."""

import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests import timescale
from tests.clusters import place_cluster
from tests.integration.server.laid import LAID, Laid
from tests.integration.server.records import Line, lined
from tests.integration.server.running import Server, running
from tests.integration.server.tables import migrated
from tests.ports import free_port

from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """One PostgreSQL in memory, in a folder whose path is short enough for a socket. Durability is tested elsewhere."""
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder:
        place_cluster(Path(folder) / "pg")
        with PrivatePostgres(Path(folder) / "pg", {"fsync": "off", "max_wal_size": "128MB"}) as started:
            yield started
            started.stop(immediate=True)  # nobody reads it again


@pytest.fixture
def empty_database(postgres: PrivatePostgres) -> str:
    """The connection string of an empty database."""
    name = f"test_{next(_numbers)}"
    postgres.ensure_database(name)
    return postgres.conninfo(name)


@pytest.fixture(scope="session")
def template(postgres: PrivatePostgres) -> str:
    """The name of a database with the schema. Copying it takes a tenth of the time of making another."""
    name = "template_of_tests"
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE scope RENAME TO {name}".encode())
    return name


@pytest.fixture
def database(postgres: PrivatePostgres, template: str) -> Iterator[str]:
    """The connection string of a database with the schema and without rows, for one test."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
        yield postgres.conninfo(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def timescale_template() -> Iterator[str]:
    """The connection string of a database with the schema, whose rows are to lie in hypertables."""
    for made in timescale.databases():
        migrated(made, LAID["hypertables"])
        yield made


@pytest.fixture(params=LAID)
def laid(request: pytest.FixtureRequest) -> Iterator[Laid]:
    """A database with the schema and without rows, of each layout."""
    tables = LAID[request.param]
    if request.param == "blocks":
        yield Laid(request.getfixturevalue("database"), tables)
    else:
        for copied in timescale.databases(request.getfixturevalue("timescale_template")):
            yield Laid(copied, tables)


@pytest.fixture
async def line(database: str) -> AsyncIterator[Line]:
    """The server's ingest path, from an agent's stream to the test's database."""
    async with lined(database) as started:
        yield started


@pytest.fixture
def upkeep(line: Line) -> Iterator[psycopg.Connection[Any]]:
    """An autocommit connection to the line's database, like upkeep's."""
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        yield connection


@pytest.fixture
def start_server(database: str, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Server]]:
    """Runs a server over the test's database for an `async with` block; takes settings."""

    def start(prepared: bool = True, **changes: Any) -> AbstractAsyncContextManager[Server]:
        anywhere = dict.fromkeys(("http", "ingest", "enrol"), "127.0.0.1:0")
        files = {"socket": tmp_path / "api.sock", "authority": tmp_path / "authority", "state_dir": tmp_path}
        return running(Settings(**{"database": database, **anywhere, **files, **changes}), prepared)

    return start


@pytest.fixture
def port() -> int:
    """A port that nobody listens on."""
    return free_port()
