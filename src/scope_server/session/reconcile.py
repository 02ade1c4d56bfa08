"""Reconciles an agent with its wanted tasks: at intervals, and whenever one of the two may have changed."""

import asyncio
import contextlib
import logging
import time
from datetime import datetime, timedelta
from typing import Any

from google.protobuf import json_format

from scope_proto.scope.v1 import session_pb2
from scope_server.errors import NoSession, StoreUnavailable
from scope_server.ingest.backlog import Backlog
from scope_server.session.reports import Reports
from scope_server.session.restored import Restored
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_server.store.reading.database import Share

log = logging.getLogger(__name__)

EVERY_S = 5.0
_BETWEEN_S = 0.1  # minimum time between two rounds for one agent


class Reconciler:
    """Reconciles sessions; `follow` is called once per session."""

    def __init__(
        self, database: Share, reports: Reports, backlog: Backlog, sessions: Sessions, restored: Restored
    ) -> None:
        self._database, self._reports, self._backlog, self._sessions = database, reports, backlog, sessions
        self._restored = restored

    async def follow(self, session: Session) -> None:
        """Runs from the agent's first report until cancelled."""
        await session.reported.wait()
        forgotten: list[int] | None = None
        told: list[dict[str, Any]] | None = None
        while True:
            session.nudged.clear()
            try:
                if forgotten is None:
                    await self._reports.caught_up(session.machine)  # first write which tasks the agent has ended itself
                    await self._restored.compare(session)
                    forgotten = await self._find_forgotten(session)
                told = await self._tell(session, told)
                forgotten = await self._close(session, forgotten)
            except StoreUnavailable as error:
                machine = session.machine.machine_id
                log.warning("cannot read the wanted tasks", extra={"machine": machine, "reason": str(error)})
            except NoSession:
                await asyncio.Event().wait()  # cancelled when the session ends
            await asyncio.sleep(_BETWEEN_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S - _BETWEEN_S):
                    await session.nudged.wait()

    async def _tell(self, session: Session, told: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """Sends the wanted tasks if they differ from `told`, those sent last; returns them."""
        own = [task_id for task_id, origin in session.tasks.items() if origin == "agent"]
        where = {"machine": session.machine.key, "own": own}
        await self._database.run("end_overdue", where)
        wanted = await self._database.fetch("wanted_tasks", where)
        if wanted != told:
            # Greater than all numbers sent to this agent before, even if the server's clock was set back.
            number = max(time.time_ns() // 1_000_000, session.number + 1)
            await self._restored.tell(session, number)
            session.number = number
            session.wish(_message(session.number, wanted, session.clock_ahead_ns))
        return wanted

    async def _find_forgotten(self, session: Session) -> list[int]:
        """Open runs of this machine that its agent does not know.

        Records are accepted only after this, so runs that they start are not included.
        """
        where = {"machine": session.machine.key, "open_runs": list(session.open_runs)}
        found = [row["id"] for row in await self._database.fetch("forgotten_runs", where)]
        session.takes_records = True
        self._sessions.tell()
        return found

    async def _close(self, session: Session, forgotten: list[int]) -> list[int]:
        """Closes forgotten runs that have no records waiting to be written; returns the others."""
        if not forgotten or self._backlog.holds(session.machine.key):
            return forgotten
        for number, run in enumerate(forgotten):
            try:
                await self._database.run("close_run", {"run": run})
            except StoreUnavailable:
                return forgotten[number:]
        log.warning("closed runs that no agent knows", extra={"machine": session.machine.machine_id, "runs": forgotten})
        return []


def _message(number: int, wanted: list[dict[str, Any]], clock_ahead_ns: int) -> session_pb2.Wanted:
    message = session_pb2.Wanted(number=number)
    for row in wanted:
        task = message.tasks.add(task_id=row["task_id"])
        json_format.ParseDict(row["definition"], task.definition, ignore_unknown_fields=True)
        if (deadline := _theirs(row["deadline"], clock_ahead_ns)) is not None:
            task.deadline.FromDatetime(deadline)
    return message


def _theirs(moment: datetime | None, clock_ahead_ns: int) -> datetime | None:
    """Converts a time of our clock to the agent's clock."""
    try:
        return moment and moment + timedelta(microseconds=clock_ahead_ns // 1000)
    except OverflowError:
        return None
