"""Finds out that the database was restored from an older copy, and books what it has lost.

A server acknowledges a record after its commit, so the database has all that an agent says was acknowledged, unless it
was restored. Of the wanted tasks, an agent knows the number of the last message that it took, which the database had
before the agent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import psycopg

from scope_server.errors import NoSession, StoreUnavailable
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_server.store.reading.database import Share
from scope_server.store.reading.queries import queries

log = logging.getLogger(__name__)

STOPPED = "it was stopped after the copy from which the database was restored; start it again if it is wanted"
WENT_BACK = "the database was restored from an older copy; the session begins again"
_WATCH_S = 1.0
_LATEST_MS = 4102444800_000  # the year 2100


class Restored:
    """Compares a database with what agents know of it.

    Args:
        prepare: makes the tables that a restored database lacks.
    """

    def __init__(self, database: Share, prepare: Callable[[], Awaitable[None]]) -> None:
        self._database, self._prepare = database, prepare

    async def compare(self, session: Session) -> None:
        """Books what the agent's records were acknowledged for and the database does not have, and ends the wanted
        tasks that it does not know were stopped. Called when the session's first report is written.

        Args:
            session: its `stored_number` is what the database has now.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        await self._book_lacking(session)
        await self._end_stopped(session)

    async def watch(self, sessions: Sessions) -> None:
        """Begins all sessions again when the database's history has changed; runs until cancelled."""
        known: dict[str, Any] | None = None
        failed = ""
        while True:
            try:
                (found,) = await self._database.fetch("history")
            except (StoreUnavailable, psycopg.Error) as error:  # in a restore, tables may be missing for a while
                if str(error) != failed:
                    log.warning("cannot tell whether the database was restored", extra={"reason": str(error)})
                failed = str(error)
            else:
                failed = ""
                if known and (found["identity"] != known["identity"] or found["batches"] < known["batches"]):
                    log.warning("the database's history has changed; all sessions begin again, to compare", extra=found)
                    await self._prepare()
                    for session in sessions.all():
                        session.end(NoSession(WENT_BACK))
                known = found
            await asyncio.sleep(_WATCH_S)

    async def _book_lacking(self, session: Session) -> None:
        told = session.acknowledged
        if not told:
            return
        columns = {name: [getattr(one, name) for one in told] for name in vars(told[0])}
        lacking = await self._database.fetch("lacking", {"machine": session.machine.key, **columns})
        if not lacking:
            return
        columns = {name: [row[name] for row in lacking] for name in lacking[0]}
        async with self._database.connection() as connection, connection.transaction():
            for name in ("make_lacking_accounts", "lock_lacking_accounts"):
                await connection.execute(queries()[name], columns)
            booked = await (await connection.execute(queries()["book_restored"], columns)).fetchall()
        for row in booked:
            where = {name: str(value) for name, value in row.items() if name != "count"}
            log.error(
                "the database lacks acknowledged events: it was restored from an older copy",
                extra={"machine": session.machine.machine_id, "events": row["count"], **where},
            )

    async def _end_stopped(self, session: Session) -> None:
        stored = session.stored_number
        went_back = stored is not None and stored < session.number
        if not went_back and not session.stopped:
            return
        sent = datetime.fromtimestamp(min(session.number, _LATEST_MS) / 1000, UTC) if went_back else None
        where = {
            "machine": session.machine.key,
            "sent": sent,
            "known": list(session.tasks),
            "stopped": list(session.stopped),
            "reason": STOPPED,
        }
        ended = await self._database.fetch("end_stopped", where)
        if ended:
            log.error(
                "tasks were stopped after the copy from which the database was restored; they are not started again",
                extra={"machine": session.machine.machine_id, "tasks": [one["task_id"] for one in ended]},
            )
