"""The writer threads, one per lane, and their health."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection

import psycopg
from psycopg.conninfo import make_conninfo

from scope_server.ingest.admit import Admission
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.lane import Lane
from scope_server.store.reading.queries import queries
from scope_server.store.retention import Disk
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.rejections import KEPT_BYTES
from scope_server.store.writing.writer import Writer

_WATCH_S = 1.0
_log = logging.getLogger(__name__)


class Writers:
    """A thread for each lane of the backlog. Records that arrive while it writes become its next group.

    Args:
        conninfo: a libpq connection string; each thread has its own connection.
        tables: the known streams by name.
        keep_days: older rows are refused.
        kept_bytes: maximum size of kept refused records.
        committed: called, in one of the threads, with the streams of which rows were committed.
        disk: while its free space is too low, nothing is written.
    """

    def __init__(
        self,
        backlog: Backlog,
        conninfo: str,
        tables: Tables,
        keep_days: int = 30,
        *,
        kept_bytes: int = KEPT_BYTES,
        committed: Callable[[Collection[str]], None] = lambda _: None,
        disk: Disk | None = None,
    ) -> None:
        self._backlog, self._conninfo, self._disk = backlog, conninfo, disk
        admission = Admission(tables, keep_days)
        self._lanes = [
            Lane(number, backlog, admission, Writer(conninfo, tables, kept_bytes), committed=committed, disk=disk)
            for number in range(backlog.lanes)
        ]

    @property
    def count(self) -> int:
        """Number of threads."""
        return len(self._lanes)

    def troubles(self) -> list[str]:
        """Why threads cannot write; empty if all can."""
        return [lane.trouble for lane in self._lanes if lane.trouble]

    async def check(self, timeout_s: float) -> str:
        """Tests a write to the database; returns what is wrong with it or with the threads, or an empty text."""
        if self._disk and (shortage := self._disk.shortage()):
            return f"waits: {shortage}; {self._backlog.held_bytes} bytes wait"
        if troubles := self.troubles():
            return f"{'; '.join(troubles)}; {self._backlog.held_bytes} bytes wait"
        try:
            async with asyncio.timeout(timeout_s):
                await self._beat()
        except TimeoutError:
            return f"the database did not write within {timeout_s:g} s"
        except psycopg.Error as error:
            return f"the database cannot be written to: {str(error).strip().splitlines()[0]}"
        return ""

    async def watch(self) -> None:
        """Returns when a thread has ended, which should not happen before `stop`."""
        while all(lane.alive for lane in self._lanes):
            await asyncio.sleep(_WATCH_S)

    async def stop(self, deadline_s: float) -> None:
        """Writes waiting records until the deadline. The rest is not answered, so agents resend it."""
        self._backlog.close()
        await asyncio.to_thread(self._join, time.monotonic() + deadline_s)
        left = self._backlog.abandon()
        if any(lane.alive for lane in self._lanes):
            for lane in self._lanes:
                lane.stop()
            await asyncio.to_thread(self._join, time.monotonic() + 2)
        if left:
            _log.warning("stopped with records not written; their agents keep them", extra={"records": len(left)})

    async def _beat(self) -> None:
        conninfo = make_conninfo(self._conninfo, application_name="scope health")
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
            await connection.execute(queries()["beat"])

    def _join(self, end: float) -> None:
        for lane in self._lanes:
            lane.join(max(0.0, end - time.monotonic()))
