"""Which replicas may be asked now: those whose data are new enough.

How old they may be is known without comparing clocks. Every second the server notes how far the primary has written its
log. A replica that has replayed the log up to a note has all that was committed before the note.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import LiteralString, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from scope_server.store.reading.database import first_line
from scope_server.store.reading.replica import Replica

EVERY_S = 1.0
_PATIENCE_S = 3.0
_NOTES = 600
_WRITTEN = "SELECT (pg_current_wal_lsn() - '0/0')::bigint"
_REPLAYED = "SELECT (pg_last_wal_replay_lsn() - '0/0')::bigint WHERE pg_is_in_recovery()"
_log = logging.getLogger(__name__)


class Note(NamedTuple):
    """A position in the log, and a time, by time.monotonic."""

    at: float
    position: int


class Notes:
    """How far the primary had written its log, and when."""

    def __init__(self) -> None:
        self._notes = deque[Note](maxlen=_NOTES)

    def add(self, note: Note) -> None:
        """The primary has written so far since then. If it had written more before, it is another or was restored."""
        if self._notes and note.position < self._notes[-1].position:
            self._notes.clear()
        self._notes.append(note)

    def as_of(self, position: int) -> float | None:
        """The newest known time before which nothing was committed that is beyond the position; None: none is known."""
        return next((note.at for note in reversed(self._notes) if note.position <= position), None)

    def lack(self, reached: Note) -> bool:
        """Whether the primary had not written what a replica had reached before: then it replays another log."""
        return bool(self._notes) and self._notes[-1].at > reached.at and self._notes[-1].position < reached.position


class Replicas:
    """The replicas of a database, and which of them may be asked.

    Args:
        primary: a libpq connection string.
        oldest_s: how old the data of one that is asked may be.
    """

    def __init__(self, primary: str, replicas: Sequence[Replica], oldest_s: float) -> None:
        self.all = replicas
        self._primary, self._oldest_s = _Asked(primary, _WRITTEN), oldest_s
        self._asked = [(replica, _Asked(replica.conninfo, _REPLAYED)) for replica in replicas]
        self._notes, self._turn = Notes(), 0

    def choose(self) -> Replica | None:
        """The next replica that may be asked; None: ask the primary."""
        fresh = [replica for replica in self.all if not self.trouble(replica)]
        self._turn += 1
        return fresh[self._turn % len(fresh)] if fresh else None

    def trouble(self, replica: Replica) -> str:
        """Why a replica is not asked; empty if it is."""
        if replica.trouble:
            return replica.trouble
        age_s = replica.age_s or 0.0
        return f"is {age_s:.0f} s behind" if age_s > self._oldest_s else ""

    async def watch(self) -> None:
        """Looks how far all are, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look_at_primary())
                for replica, asked in self._asked:
                    group.create_task(self._look_at(replica, asked))
        finally:
            for each in (self._primary, *(asked for _, asked in self._asked)):
                await each.close()

    async def _look_at_primary(self) -> None:
        while True:
            at = time.monotonic()
            with suppress(psycopg.Error):
                if (position := await self._primary.answer()) is not None:
                    self._notes.add(Note(at, position))
            await asyncio.sleep(EVERY_S)

    async def _look_at(self, replica: Replica, asked: "_Asked") -> None:
        reached, told = None, ""
        while True:
            reached = await self._position(replica, asked, reached)
            trouble = self.trouble(replica)
            if trouble and not told:
                _log.warning("a replica is left out", extra={"replica": replica.name, "reason": trouble})
            elif told and not trouble:
                _log.info("a replica is asked again", extra={"replica": replica.name})
            told = trouble
            await asyncio.sleep(EVERY_S)

    async def _position(self, replica: Replica, asked: "_Asked", reached: Note | None) -> Note | None:
        answering = asyncio.ensure_future(asked.answer())
        try:
            await asyncio.wait((answering,), timeout=_PATIENCE_S)
            if not answering.done():
                replica.lose("does not answer")
            position = await answering
        except psycopg.Error as error:
            replica.lose(f"cannot be reached: {first_line(error)}")
            return None
        finally:
            answering.cancel()
        if position is None:
            replica.lose("is no replica")
            return None
        if reached and self._notes.lack(reached):
            replica.lose("replays the log of another primary")
        else:
            replica.has(self._notes.as_of(position))
        return Note(time.monotonic(), position)


class _Asked:
    """A connection that is kept, and asked the same again and again."""

    def __init__(self, conninfo: str, question: LiteralString) -> None:
        self._conninfo = make_conninfo(conninfo, application_name="scope replicas")
        self._question = question
        self._connection: psycopg.AsyncConnection[tuple[int | None]] | None = None

    async def answer(self) -> int | None:
        """The first column of the first row; None if there is no row.

        Raises:
            psycopg.Error: the database went away, or cannot answer that.
        """
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        row = await (await self._connection.execute(self._question)).fetchone()
        return row[0] if row else None

    async def close(self) -> None:
        """Closes the connection."""
        if self._connection:
            await self._connection.close()
