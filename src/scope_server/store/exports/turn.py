"""Whose turn it is to push what is stored: of all servers of a database, one has it, until its connection ends."""

import asyncio
import logging
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Connection
from scope_server.store.reading.queries import queries

_AGAIN_S = 5.0
_ANSWERS_S = 15.0
# PostgreSQL, too, must notice that a server has gone, or nobody else gets the turn.
_OPTIONS = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c statement_timeout=10s"
_TAKE = "SELECT pg_try_advisory_lock(hashtext('scope.exports')) AS had"
_log = logging.getLogger(__name__)


class Turn:
    """The turn to push, and the positions of what is pushed: they are kept over the connection that has the turn.

    Args:
        conninfo: a libpq connection string.
    """

    def __init__(self, conninfo: str) -> None:
        options = f"{conninfo_to_dict(conninfo).get('options') or ''} {_OPTIONS}".strip()
        self._conninfo = make_conninfo(conninfo, options=options, application_name="scope exports")
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        """Waits until this server has the turn."""
        while self._connection is None:
            try:
                self._connection = await self._taken()
            except psycopg.Error as error:
                _log.info("exports wait for the database", extra={"reason": str(error).strip().split("\n")[0]})
            if self._connection is None:
                await asyncio.sleep(_AGAIN_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection:
            await self._connection.close()
            self._connection = None

    async def _taken(self) -> Connection | None:
        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True, row_factory=dict_row)
        taken = False
        try:
            row = await (await connection.execute(_TAKE)).fetchone()
            taken = bool(row and row["had"])
            return connection if taken else None
        finally:
            if not taken:
                await connection.close()

    async def watch(self) -> None:
        """Returns never.

        Raises:
            StoreUnavailable: the connection has ended, and with it the turn.
        """
        while True:
            await self._rows("SELECT 1")
            await asyncio.sleep(_AGAIN_S)

    async def position(self, name: str) -> str:
        """How far an export is; empty: it begins.

        Raises:
            StoreUnavailable: the turn is over.
        """
        found = await self._rows(queries()["export_position"], {"name": name})
        return str(found[0]["position"]) if found else ""

    async def keep(self, name: str, position: str) -> None:
        """Stores how far an export is.

        Raises:
            StoreUnavailable: the turn is over.
        """
        await self._rows(queries()["keep_export_position"], {"name": name, "position": position})

    async def _rows(self, statement: Any, given: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        if self._connection is None:
            raise StoreUnavailable("this server has no turn to push")
        try:
            async with asyncio.timeout(_ANSWERS_S):
                cursor = await self._connection.execute(statement, given)
                return await cursor.fetchall() if cursor.description else []
        except (psycopg.Error, TimeoutError) as error:
            raise StoreUnavailable(f"the turn to push is over: {str(error).strip() or 'no answer'}") from error
