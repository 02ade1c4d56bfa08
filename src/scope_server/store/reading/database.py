"""The connection pool for queries; converts database errors to the server's errors."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from scope_server.errors import InvalidQuery, QueryTooSlow, SchemaConflict, StoreUnavailable
from scope_server.store.reading.queries import queries
from scope_server.store.schema.migrate import migrate
from scope_server.store.schema.tables import Tables

Connection = psycopg.AsyncConnection[DictRow]
_CONNECT_S = 3.0
_FRESH_S = 5.0  # a connection that worked so recently is used without a check, which costs a statement
_LONGEST_PAUSE_S = 5.0
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_log = logging.getLogger(__name__)


class Database:
    """A pool of connections for queries; an async context manager. Entering does not wait for the database.

    Until `prepare` has returned, every query raises StoreUnavailable.

    Args:
        conninfo: a libpq connection string.
        direct: the same, where `conninfo` leads through a pooler that gives each transaction any of its connections to
            the database; empty: none is between.
        connections: maximum number of connections.
        statement_timeout_s: PostgreSQL cancels longer statements, and those that wait half as long for a lock.
    """

    def __init__(self, conninfo: str, connections: int, statement_timeout_s: float, direct: str = "") -> None:
        self._direct = direct or conninfo
        limit_ms = int(statement_timeout_s * 1000)
        limits = {"statement_timeout": limit_ms, "lock_timeout": max(1, limit_ms // 2)}
        # A connection of a pooler has no options of its own, and does not find again what it has prepared.
        self._limits = "; ".join(f"SET LOCAL {name} = {value}" for name, value in limits.items()) if direct else ""
        options = " ".join(f"-c {name}={value}" for name, value in limits.items())
        self._unprepared = "not tried yet"
        self._worked: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()  # when, by time.monotonic
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo,
            min_size=0,
            max_size=max(2, connections),
            open=False,
            timeout=_CONNECT_S,
            reconnect_timeout=_CONNECT_S,
            check=self._check,
            connection_class=psycopg.AsyncConnection[DictRow],
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "connect_timeout": int(_CONNECT_S),
                **({"prepare_threshold": None} if direct else {"options": options}),
            },
        )

    async def __aenter__(self) -> Self:
        await self._pool.open(wait=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close(timeout=_CONNECT_S)

    async def prepare(self, tables: Tables) -> None:
        """Migrates the database to this server's schema; retries with growing pauses until it can be reached.

        Raises:
            SchemaConflict: the schemas of database and server contradict each other, or the database refuses to create
                the schema.
        """
        pause = 0.1
        while self._unprepared:
            try:
                await asyncio.to_thread(self._migrate, tables)
                self._unprepared = ""
            except (psycopg.OperationalError, psycopg.InternalError) as error:  # gone, starting, full, read-only
                self._unprepared = _explained(error)
                _log.warning("waiting for the database", extra={"reason": self._unprepared, "retry_s": pause})
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            except psycopg.Error as error:
                raise SchemaConflict(f"the database refuses this server's schema: {first_line(error)}") from error

    async def prepare_again(self, tables: Tables) -> None:
        """Like `prepare`, for a database that was restored: it may lack tables that were made since its copy.

        Raises:
            SchemaConflict: as for `prepare`.
        """
        self._unprepared = "it was restored, and its tables are checked"
        await self.prepare(tables)

    async def _check(self, connection: Connection) -> None:
        if time.monotonic() - self._worked.get(connection, 0.0) > _FRESH_S:
            await AsyncConnectionPool.check_connection(connection)

    def _migrate(self, tables: Tables) -> None:
        # Whatever limit the role has: a migration may take long. A pooler refuses that, see `_explained`.
        given = conninfo_to_dict(self._direct).get("options") or ""
        unlimited = f"{given} -c statement_timeout=0".strip()
        with psycopg.connect(
            self._direct, autocommit=True, connect_timeout=int(_CONNECT_S), options=unlimited
        ) as connection:
            migrate(connection, tables)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection from the pool, for the block. A statement that takes too long raises psycopg's QueryCanceled.

        Raises:
            StoreUnavailable: no connection is free in time, the connection was lost, the schema is not ready yet, or
                others lock what the statement needs.
        """
        async with self._lent() as connection:
            if not self._limits:
                yield connection
                return
            async with connection.transaction():
                await connection.execute(self._limits.encode())
                yield connection

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        if self._unprepared:
            raise StoreUnavailable(f"the database cannot be reached: {self._unprepared}")
        cancellations = _cancellations()
        try:
            async with self._pool.connection() as connection:
                # The pool loses one that comes together with the connection: asyncio.wait_for() does, before Python
                # 3.12 (CPython's issue 86296). Background work would never end.
                if _cancellations() > cancellations:
                    raise asyncio.CancelledError
                yield connection
                self._worked[connection] = time.monotonic()
        except psycopg.errors.QueryCanceled:
            raise
        except psycopg.errors.LockNotAvailable as error:
            raise StoreUnavailable(f"the database is locked by others: {first_line(error)}; try again") from error
        except (
            PoolTimeout,
            psycopg.OperationalError,
            psycopg.InternalError,
        ) as error:  # InternalError: the database is read-only
            raise StoreUnavailable(f"the database cannot be reached: {first_line(error)}") from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """A transaction whose queries, composed for a request, all read from one snapshot.

        Raises:
            InvalidQuery: a value has no place in the database.
            QueryTooSlow: it takes too long.
            StoreUnavailable: as for `connection`.
        """
        try:
            async with self._lent() as connection, connection.transaction():
                # Not by `connection`: a transaction in a transaction has the snapshot of the outer one.
                await connection.execute(f"{_SNAPSHOT}; {self._limits}".encode())
                yield connection
        except psycopg.errors.QueryCanceled:
            raise QueryTooSlow from None
        except psycopg.DataError as error:
            raise InvalidQuery(str(error).splitlines()[0]) from None

    async def fetch(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        """The rows of a query in `queries.sql`.

        Raises:
            StoreUnavailable: as for `connection`, or the query takes too long.
        """
        return await self.rows(queries()[name], parameters)

    async def rows(self, query: bytes | sql.Composed, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        """The rows of a query.

        Raises:
            StoreUnavailable: as for `fetch`.
        """
        try:
            async with self.connection() as connection:
                return await (await connection.execute(query, parameters)).fetchall()
        except psycopg.errors.QueryCanceled as error:
            raise StoreUnavailable(f"the database is too slow, or locked: {first_line(error)}") from error

    async def run(self, name: str, parameters: Mapping[str, Any]) -> int:
        """Runs a statement in `queries.sql` that returns no rows; returns the number of changed rows.

        Raises:
            StoreUnavailable: as for `fetch`.
        """
        try:
            async with self.connection() as connection:
                return (await connection.execute(queries()[name], parameters)).rowcount
        except psycopg.errors.QueryCanceled as error:
            raise StoreUnavailable(f"the database is too slow, or locked: {first_line(error)}") from error


class Share:
    """A part of a pool's connections, for background work, so that the others are free for the API.

    Args:
        connections: maximum number used at a time.
    """

    def __init__(self, database: Database, connections: int) -> None:
        self._database = database
        self._free = asyncio.Semaphore(connections)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Like `Database.connection`; a statement that takes too long raises StoreUnavailable, too."""
        try:
            async with self._free, self._database.connection() as connection:
                yield connection
        except psycopg.errors.QueryCanceled as error:
            raise StoreUnavailable(f"the database is too slow, or locked: {first_line(error)}") from error

    async def fetch(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        """Like `Database.fetch`."""
        async with self._free:
            return await self._database.fetch(name, parameters)

    async def run(self, name: str, parameters: Mapping[str, Any]) -> int:
        """Like `Database.run`."""
        async with self._free:
            return await self._database.run(name, parameters)


def _explained(error: Exception) -> str:
    said = first_line(error)
    refused = "unsupported startup parameter" in said
    return f"{said}; if pgbouncer is between, give direct_database as well" if refused else said


def _cancellations() -> int:
    """How often the running task was asked to end."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def first_line(error: Exception) -> str:
    """What an error says, without its details."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
