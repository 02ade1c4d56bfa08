"""Connections for queries: a pool, and what its failures mean to the rest of the server."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from scope_server.errors import StoreUnavailable
from scope_server.store.columns import StreamTable
from scope_server.store.queries import queries
from scope_server.store.schema import migrate

Connection = psycopg.AsyncConnection[DictRow]
_CONNECT_S = 3.0
_log = logging.getLogger(__name__)


class Database:
    """A pool of connections for queries; an async context manager, which does not wait for the database.

    Args:
        conninfo: a libpq connection string.
        connections: at most so many.
        statement_timeout_s: PostgreSQL ends a longer statement.
    """

    def __init__(self, conninfo: str, connections: int, statement_timeout_s: float) -> None:
        self._conninfo = conninfo
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo,
            min_size=1,
            max_size=max(2, connections),
            open=False,
            timeout=_CONNECT_S,
            reconnect_timeout=10.0,
            check=AsyncConnectionPool.check_connection,
            connection_class=psycopg.AsyncConnection[DictRow],
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "connect_timeout": int(_CONNECT_S),
                "options": f"-c statement_timeout={int(statement_timeout_s * 1000)}",
            },
        )

    async def __aenter__(self) -> Self:
        await self._pool.open(wait=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close(timeout=_CONNECT_S)

    async def prepare(self, tables: Iterable[StreamTable], wait_s: float) -> None:
        """Waits for the database and brings it to this server's schema.

        Raises:
            StoreUnavailable: it cannot be reached within `wait_s` seconds.
            SchemaConflict: its schema and this server's contradict each other.
        """
        tables = list(tables)
        end = time.monotonic() + wait_s
        pause = 0.1
        while True:
            try:
                await asyncio.to_thread(self._migrate, tables)
                return
            except psycopg.OperationalError as error:
                reason = str(error).strip().splitlines()[0]
                if time.monotonic() + pause > end:
                    raise StoreUnavailable(f"the database cannot be reached after {wait_s:g} s: {reason}") from error
                _log.warning("waiting for the database", extra={"reason": reason, "retry_s": pause})
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _migrate(self, tables: list[StreamTable]) -> None:
        with psycopg.connect(self._conninfo, autocommit=True, connect_timeout=int(_CONNECT_S)) as connection:
            migrate(connection, tables)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection of the pool, for a while.

        Raises:
            StoreUnavailable: there is none in time, or it was lost.
        """
        try:
            async with self._pool.connection() as connection:
                yield connection
        except psycopg.errors.QueryCanceled:
            raise
        except (PoolTimeout, psycopg.OperationalError) as error:
            raise StoreUnavailable(f"the database cannot be reached: {str(error).strip().splitlines()[0]}") from error

    async def fetch(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        """The rows of a query of `queries.sql`.

        Raises:
            StoreUnavailable: as for `connection`.
        """
        async with self.connection() as connection:
            return await (await connection.execute(queries()[name], parameters)).fetchall()

    async def run(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Runs a statement of `queries.sql` that returns nothing.

        Raises:
            StoreUnavailable: as for `connection`.
        """
        async with self.connection() as connection:
            await connection.execute(queries()[name], parameters)
