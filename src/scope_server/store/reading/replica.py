"""A streaming replica of the database, which answers queries in place of the primary."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Connection, Database, first_line

Answer = TypeVar("Answer")


class Replica(Database):
    """A pool of connections to a replica. What it lacks, or has not replayed yet, raises StoreUnavailable, too.

    Args:
        conninfo, connections, statement_timeout_s: as of `Database`.

    Attributes:
        conninfo: see above.
        name: host and port.
        trouble: why it cannot be asked; empty if it can.
        answers: how many it has given.
        failures: how many answers the primary gave in its place, because it failed.
    """

    def __init__(self, conninfo: str, connections: int, statement_timeout_s: float) -> None:
        super().__init__(conninfo, connections, statement_timeout_s)
        self._unprepared = ""  # its tables come from the primary
        self._lost = asyncio.Event()
        self._abandoned: set[asyncio.Future[Any]] = set()
        self._as_of: float | None = None
        self.conninfo = conninfo
        self.name, self.trouble = _name(conninfo), "was not asked yet"
        self.answers = self.failures = 0

    @property
    def age_s(self) -> float | None:
        """How old its data may be; None: it has never had what the primary had when this server started."""
        return None if self._as_of is None else time.monotonic() - self._as_of

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        try:
            async with super()._lent() as connection:
                yield connection
        except psycopg.ProgrammingError as error:
            raise StoreUnavailable(
                f"the replica {self.name} lacks what the primary may have: {first_line(error)}"
            ) from error

    async def ask(self, answering: Coroutine[Any, Any, Answer]) -> Answer:
        """Runs a coroutine that reads from the replica.

        Raises:
            StoreUnavailable: the replica went away meanwhile; and what the coroutine raises.
        """
        asking, lost = asyncio.ensure_future(answering), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((asking, lost), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise StoreUnavailable(f"the replica {self.name} {self.trouble}")
            return asking.result()
        finally:
            lost.cancel()
            if not asking.done():  # it takes seconds to give up a statement of a server that is silent
                self._abandoned.add(asking)
                asking.add_done_callback(self._forget)
                asking.cancel()

    def has(self, as_of: float | None) -> None:
        """It has all that was committed until then, by time.monotonic. None: nothing newer than before."""
        if as_of is not None:
            self._as_of = as_of
        self.trouble = "" if self._as_of is not None else "lacks what the primary had when this server started"
        self._lost.clear()

    def lose(self, reason: str) -> None:
        """It cannot be asked now; what was asked already has no answer."""
        self.trouble = reason
        self._lost.set()

    def _forget(self, asking: "asyncio.Future[Any]") -> None:
        self._abandoned.discard(asking)
        if not asking.cancelled():
            asking.exception()  # else asyncio complains that nobody looked


def _name(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    host = given.get("host") or given.get("hostaddr") or "localhost"
    return f"{host}:{given.get('port') or 5432}"
