"""Which agents are connected: one session a machine."""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from scope_server.errors import MachineTaken, NoSession, TooManySessions
from scope_server.machine import Machine
from scope_server.session.hello import Caller
from scope_server.session.session import Session
from scope_server.store.reading.database import Database

log = logging.getLogger(__name__)

CONFLICT_S = 600.0  # since the last try: so long a conflict is shown
_REPLACED_S = 5.0  # to end the session that another replaces
_ATTEND_FIRST_S = 5.0  # an Upload that overtakes its Attend waits


@dataclass(frozen=True)
class Conflict:
    """An agent that was refused since another with the same machine id is connected."""

    hostname: str
    time: datetime
    monotonic: float


class Sessions:
    """The sessions by machine id.

    Args:
        most: so many at a time.

    Attributes:
        opened: sessions so far.
        refused: agents that were refused for another of the same machine id, so far.
    """

    def __init__(self, database: Database, most: int) -> None:
        self._database, self._most = database, most
        self._sessions: dict[str, Session] = {}
        self._conflicts: dict[str, Conflict] = {}
        self._changed = asyncio.Event()  # set, and replaced, whenever an Upload may find what it waits for
        self.opened = self.refused = 0

    def all(self) -> list[Session]:
        """The sessions there are."""
        return list(self._sessions.values())

    def get(self, machine_id: str) -> Session | None:
        """The session of a machine, if its agent is connected."""
        return self._sessions.get(machine_id)

    def conflict(self, machine_id: str) -> Conflict | None:
        """The latest agent that was refused for another of this machine id, if that was not long ago."""
        now = time.monotonic()
        self._conflicts = {machine: one for machine, one in self._conflicts.items() if now - one.monotonic < CONFLICT_S}
        return self._conflicts.get(machine_id)

    async def open(self, caller: Caller) -> Session:
        """Begins a session; the one that the same installation had before is ended first.

        Raises:
            MachineTaken: an agent of another installation is connected with the same machine id.
            TooManySessions: there are as many as there may be.
            StoreUnavailable: the database cannot be reached.
        """
        self._check(caller)
        (row,) = await self._database.fetch("register_machine", vars(caller))
        self._check(caller)
        machine = Machine(row["id"], caller.machine_id, caller.installation, caller.boot_to_utc_ns)
        session = Session(machine, caller.hostname, caller.clock_ahead_ns)
        before = self._sessions.get(caller.machine_id)
        self._sessions[caller.machine_id] = session
        if before:
            before.end(NoSession("the same agent has connected anew"))
            try:
                await asyncio.wait_for(before.gone.wait(), _REPLACED_S)
            except TimeoutError:
                log.error("a replaced session does not end", extra={"machine": caller.machine_id})
        self.opened += 1
        log.info("agent connected", extra={"machine": caller.machine_id, "hostname": caller.hostname})
        return session

    def close(self, session: Session) -> None:
        """Ends a session, for good."""
        session.end(NoSession("its session is over"))
        session.gone.set()
        machine_id = session.machine.machine_id
        if self._sessions.get(machine_id) is session:
            del self._sessions[machine_id]
            log.info("agent disconnected", extra={"machine": machine_id, "reason": session.reason})
        self.tell()

    def tell(self) -> None:
        """Has Uploads that wait for a session look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def attending(self, caller: Caller) -> Session:
        """The session that this caller's records belong to, as soon as it takes them.

        Raises:
            MachineTaken: another installation has it.
            NoSession: there is none.
        """
        try:
            async with asyncio.timeout(_ATTEND_FIRST_S):
                while True:
                    session = self._sessions.get(caller.machine_id)
                    if session and session.machine.installation != caller.installation:
                        self._check(caller)
                    if session and session.takes_records:
                        return session
                    await self._changed.wait()
        except TimeoutError:
            raise NoSession("Upload: there is no session of this agent; open Attend first, and report there") from None

    def _check(self, caller: Caller) -> None:
        live = self._sessions.get(caller.machine_id)
        if live is None:
            if len(self._sessions) >= self._most:
                raise TooManySessions(f"the server attends {self._most} agents, which is the most it may")
        elif live.machine.installation != caller.installation:
            self.refused += 1
            self._conflicts[caller.machine_id] = Conflict(caller.hostname, datetime.now(UTC), time.monotonic())
            log.warning(
                "an agent was refused: its machine id is taken",
                extra={"machine": caller.machine_id, "hostname": caller.hostname, "by": live.hostname},
            )
            raise MachineTaken(
                f"'{caller.hostname}' and '{live.hostname}' have the same machine id, and '{live.hostname}' is "
                "connected: one is a copy of the other. Give one of them an /etc/machine-id of its own (remove the "
                "file, run systemd-machine-id-setup) and restart its agent"
            )
