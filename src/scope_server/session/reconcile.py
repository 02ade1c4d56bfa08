"""Reconciles agents with their wanted tasks: one loop for all sessions. Its statements are for many sessions at once.

Of an agent that does nothing, the database is asked nothing: the loop asks whose wanted tasks changed.
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import psycopg
from google.protobuf import json_format

from scope_proto.scope.v1 import session_pb2
from scope_server.errors import NoSession, StoreUnavailable
from scope_server.ingest.backlog import Backlog
from scope_server.session.changes import Changes
from scope_server.session.reports import Reports
from scope_server.session.restored import WENT_BACK, Restored
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_server.store.reading.database import Share
from scope_server.store.reading.queries import queries

log = logging.getLogger(__name__)

EVERY_S = 1.0
OVERDUE_EVERY_S = 5.0
_BETWEEN_S = 0.1  # minimum time between two rounds
_GROUP = 200  # sessions in a statement: a change of an agent that runs waits for one group of those that begin


class Reconciler:
    """Reconciles sessions from their agents' first report on."""

    def __init__(
        self,
        database: Share,
        changes: Changes,
        reports: Reports,
        backlog: Backlog,
        sessions: Sessions,
        *,
        restored: Restored,
    ) -> None:
        self._database, self._changes, self._reports = database, changes, reports
        self._backlog, self._sessions, self._restored = backlog, sessions, restored
        self._beginning: dict[Session, None] = {}  # their agents have reported
        self._due: dict[Session, None] = {}  # their agents may have to be told something else
        self._forgotten: dict[Session, list[int]] = {}  # open runs that the agent does not know
        self._overdue_at = 0.0  # time of the loop's clock

    def begin(self, session: Session) -> None:
        """Called when the agent's first report has come."""
        self._beginning[session] = None
        self._changes.woken.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._changes.woken.clear()
            try:
                await self._round()
            except StoreUnavailable as error:
                log.warning("cannot read the wanted tasks", extra={"reason": str(error)})
            except psycopg.Error:
                log.exception("the database refuses a question about wanted tasks")
            await asyncio.sleep(_BETWEEN_S)
            if not self._beginning:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_S - _BETWEEN_S):
                        await self._changes.woken.wait()

    async def _round(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._overdue_at >= OVERDUE_EVERY_S:
            await self._end_overdue()
            self._overdue_at = now
        changed = await self._changes.since_last()
        if changed is None or changed:  # mostly nothing has, and there may be thousands of sessions
            self._due |= dict.fromkeys(
                session
                for session in self._sessions.all()
                if session.takes_records and (changed is None or session.machine.key in changed)
            )
        await self._begin_some()
        for group in _groups(_open(self._due)):
            await self._tell(group)
            for session in group:
                self._due.pop(session, None)
        self._due.clear()
        await self._close_forgotten()

    async def _end_overdue(self) -> None:
        async with self._database.connection() as connection:
            told = [session for session in self._sessions.all() if session.reported]
            machines = [session.machine.key for session in told]
            own = [task_id for one in told for task_id, origin in one.tasks.items() if origin == "agent"]
            await connection.execute(queries()["end_overdue"], {"machines": machines, "own": own})

    async def _begin_some(self) -> None:
        """Begins with sessions whose first report is written, so that the database knows what their agents ended."""
        self._beginning = dict.fromkeys(_open(self._beginning))
        group = [session for session in self._beginning if not self._reports.waiting(session.machine)][:_GROUP]
        if not group:
            return
        machines = [session.machine.key for session in group]
        stored = await self._database.fetch("wanted_numbers", {"machines": machines})
        numbers = {row["machine"]: row["wanted_number"] for row in stored}
        for session in group:
            session.stored_number = numbers.get(session.machine.key)
            await self._compare(session)
        await self._find_forgotten(group, machines)
        for session in group:
            del self._beginning[session]
            self._due[session] = None

    async def _compare(self, session: Session) -> None:
        try:
            await self._restored.compare(session)
        except psycopg.Error:  # caused by what this agent says
            log.exception("cannot compare what was acknowledged", extra={"machine": session.machine.machine_id})
            session.end(NoSession("the server cannot compare what it has acknowledged with its database"))

    async def _find_forgotten(self, group: list[Session], machines: list[int]) -> None:
        """Finds the open runs of machines that their agents do not know.

        Records are accepted only after this, so runs that they start are not included.
        """
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in await self._database.fetch("unfinished_runs", {"machines": machines}):
            found[row["machine"]].append(row)
        for session in group:  # with what was reported while the database was asked
            unfinished = found[session.machine.key]
            if runs := [row["id"] for row in unfinished if str(row["run_id"]) not in session.open_runs]:
                self._forgotten[session] = runs
            session.takes_records = True
        self._sessions.tell()

    async def _tell(self, group: list[Session]) -> None:
        """Sends the wanted tasks of each session if they differ from those sent last.

        The database has the number of a message before the agent does. If it has an older one than it had, it was
        restored, and the session is ended.
        """
        wanted: dict[int, list[dict[str, Any]]] = defaultdict(list)
        machines = [session.machine.key for session in group]
        for row in await self._database.fetch("wanted_tasks", {"machines": machines}):
            wanted[row.pop("machine")].append(row)
        changed = [one for one in group if wanted[one.machine.key] != one.told]
        if not changed:
            return
        # Greater than all numbers sent to an agent before, even if the server's clock was set back.
        now_ms = time.time_ns() // 1_000_000
        numbers = [max(now_ms, session.number + 1) for session in changed]
        columns = {
            "machine": [session.machine.key for session in changed],
            "before": [session.stored_number for session in changed],
            "number": numbers,
        }
        told: dict[int, list[dict[str, Any]]] = {}
        leaving: set[int] = set()
        for row in await self._database.fetch("tell_wanted", columns):
            machine = row.pop("machine")
            if row.pop("leaving"):
                leaving.add(machine)
            told.setdefault(machine, []).extend([row] if row["task_id"] else [])
        for session, number in zip(changed, numbers, strict=True):
            machine = session.machine.key
            if machine not in told:
                session.end(NoSession(WENT_BACK))
                continue
            session.stored_number = session.number = number
            session.told, session.leaving = told[machine], number if machine in leaving else 0
            session.wish(_message(number, session))

    async def _close_forgotten(self) -> None:
        """Closes forgotten runs of machines that have no records waiting to be written."""
        for session in list(self._forgotten):
            if session.reason:
                del self._forgotten[session]
            elif not self._backlog.holds(session.machine.key):
                runs = self._forgotten[session]
                for run in runs:
                    await self._database.run("close_run", {"run": run})
                del self._forgotten[session]
                machine = session.machine.machine_id
                log.warning("closed runs that no agent knows", extra={"machine": machine, "runs": runs})


def _open(sessions: Collection[Session]) -> list[Session]:
    return [session for session in sessions if not session.reason]


def _groups(sessions: list[Session]) -> list[list[Session]]:
    return [sessions[first : first + _GROUP] for first in range(0, len(sessions), _GROUP)]


def _message(number: int, session: Session) -> session_pb2.Wanted:
    """What the session's agent is told: without tasks with a filter, if it would record all rows instead."""
    message = session_pb2.Wanted(number=number)
    for row in session.told or ():
        if row["definition"].get("where") and not session.takes_where:
            continue
        task = message.tasks.add(task_id=row["task_id"])
        try:
            json_format.ParseDict(row["definition"], task.definition, ignore_unknown_fields=True)
        except json_format.ParseError as error:
            log.error("the database has a task that is none", extra={"task": row["task_id"], "reason": str(error)})
            del message.tasks[-1]
            continue
        if (deadline := _theirs(row["deadline"], session.clock_ahead_ns)) is not None:
            task.deadline.FromDatetime(deadline)
    return message


def _theirs(moment: datetime | None, clock_ahead_ns: int) -> datetime | None:
    """Converts a time of our clock to the agent's clock."""
    try:
        return moment and moment + timedelta(microseconds=clock_ahead_ns // 1000)
    except OverflowError:
        return None
