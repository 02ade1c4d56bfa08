"""Whose wanted tasks have changed: asked for all machines in one statement.

The database notifies of changes, which is fast, but may fail unnoticed; so the question is asked now and then anyway.
"""

import asyncio
import logging

import psycopg
from psycopg.conninfo import make_conninfo

from scope_server.store.reading.database import Share

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


class Changes:
    """Changes of the wanted tasks of machines, by this server and others.

    Args:
        database: for the question.
        conninfo: for a connection that only listens.

    Attributes:
        woken: set when the database has told of a change, or somebody else has set it.
    """

    def __init__(self, database: Share, conninfo: str) -> None:
        self._database, self._conninfo = database, make_conninfo(conninfo, application_name="scope wishes")
        self._snapshot: str | None = None
        self.woken = asyncio.Event()

    async def listen(self) -> None:
        """Listens until cancelled; connects again with growing pauses."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
                    await connection.execute("LISTEN scope_wishes")
                    self.woken.set()  # for what was not heard before
                    pause_s = _FIRST_PAUSE_S
                    async for _ in connection.notifies():
                        self.woken.set()
            except psycopg.Error as error:
                reason = str(error).strip().splitlines()[0]
                log.warning("changes of wanted tasks are noticed later", extra={"reason": reason, "retry_s": pause_s})
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def since_last(self) -> frozenset[int] | None:
        """Keys of the machines whose wanted tasks changed since the last call that succeeded; None: maybe of all.

        The first call only begins to look.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        (found,) = await self._database.fetch("changed_wishes", {"seen": self._snapshot})
        self._snapshot = found["now"]
        return None if found["went_back"] else frozenset(found["machines"])
