"""The connected agents: one session per machine."""

import asyncio
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

from scope_server.errors import MachineTaken, NoSession, TooManySessions
from scope_server.machine import Machine
from scope_server.session.directory import Directory
from scope_server.session.entrance import Entrance
from scope_server.session.hello import Caller
from scope_server.session.session import Session
from scope_server.store.reading.database import Share
from scope_wire.identity import Holder

log = logging.getLogger(__name__)

CONFLICT_S = 600.0  # how long a conflict is shown after the last try
_REPLACED_S = 5.0  # for the end of a replaced session
_ATTEND_FIRST_S = 5.0  # how long an Upload waits for its Attend


@dataclass(frozen=True)
class Conflict:
    """An agent that was refused because another agent with the same machine id is connected."""

    hostname: str
    time: datetime
    monotonic: float


class Sessions:
    """The sessions by machine id.

    Args:
        most: maximum number of sessions.
        directory: is told of them.

    Attributes:
        entrance: through which agents come whose sessions begin.
        opened: sessions so far.
        refused: agents refused so far because of the same machine id.
    """

    def __init__(self, database: Share, most: int, directory: Directory) -> None:
        self._database, self._most, self._directory = database, most, directory
        self._sessions: dict[str, Session] = {}
        self._conflicts: dict[str, Conflict] = {}
        self._changed = asyncio.Event()  # set, and replaced, whenever an Upload may find its session
        self.entrance = Entrance()
        self.opened = self.refused = 0

    def ask_for_probes(self, machine_ids: Collection[str]) -> None:
        """Asks those of these machines' agents that are connected here to tell their probes, if they have not."""
        for machine_id in machine_ids:
            if session := self._sessions.get(machine_id):
                session.probes()

    def all(self) -> list[Session]:
        """All sessions."""
        return list(self._sessions.values())

    def get(self, machine_id: str) -> Session | None:
        """The session of a machine, if its agent is connected."""
        return self._sessions.get(machine_id)

    def conflict(self, machine_id: str) -> Conflict | None:
        """The latest agent refused because of this machine id, if this was recent."""
        now = time.monotonic()
        self._conflicts = {machine: one for machine, one in self._conflicts.items() if now - one.monotonic < CONFLICT_S}
        return self._conflicts.get(machine_id)

    async def open(self, caller: Caller, holder: Holder) -> Session:
        """Opens a session; an earlier session of the same installation is ended first, if its agent does not answer.

        Raises:
            MachineTaken: another agent is connected with the same machine id, and, if it is of the same installation,
                answers.
            TooManySessions: the limit is reached.
            StoreUnavailable: the database cannot be reached.
        """
        self._check(caller)
        await self._check_alone(caller)
        (row,) = await self._database.fetch("register_machine", vars(caller))
        self._check(caller)
        machine = Machine(row["id"], caller.machine_id, caller.installation, caller.boot_to_utc_ns)
        session = Session(machine, holder, caller)
        before = self._sessions.get(caller.machine_id)
        self._sessions[caller.machine_id] = session
        if before:
            before.end(NoSession("the same agent has connected again"))
            try:
                async with asyncio.timeout(_REPLACED_S):
                    await before.gone.wait()
            except TimeoutError:
                log.error("a replaced session does not end", extra={"machine": caller.machine_id})
        self.opened += 1
        self._directory.hold(caller.machine_id)
        log.info("agent connected", extra={"machine": caller.machine_id, "hostname": caller.hostname})
        return session

    def close(self, session: Session) -> None:
        """Ends a session, for good."""
        session.end(NoSession("its session is over"))
        session.gone.set()
        machine_id = session.machine.machine_id
        if self._sessions.get(machine_id) is session:
            del self._sessions[machine_id]
            self._directory.release(machine_id)
            log.info("agent disconnected", extra={"machine": machine_id, "reason": session.reason})
        self.tell()

    def tell(self) -> None:
        """Wakes Uploads that wait for a session."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def attending(self, caller: Caller) -> Session:
        """The session of this caller, as soon as it accepts records.

        Raises:
            MachineTaken: another installation has the machine id.
            NoSession: the caller has no session.
        """
        try:
            async with asyncio.timeout(_ATTEND_FIRST_S):
                while True:
                    session = self._sessions.get(caller.machine_id)
                    if session and session.machine.installation != caller.installation:
                        self._check(caller)
                    if session and session.takes_records and session.life == caller.life:
                        return session
                    await self._changed.wait()
        except TimeoutError:
            raise NoSession("Upload: this agent has no session; call Attend and send a report first") from None

    def _check(self, caller: Caller) -> None:
        live = self._sessions.get(caller.machine_id)
        if live is None:
            if len(self._sessions) >= self._most:
                raise TooManySessions(f"the server already has the maximum of {self._most} agents")
        elif live.machine.installation != caller.installation:
            self._refuse(
                caller,
                live,
                f"'{caller.hostname}' and '{live.hostname}' have the same machine id, and '{live.hostname}' is "
                "connected: one is a copy of the other. On one of them, join again with a new token: it gets an id of "
                "its own",
            )

    async def _check_alone(self, caller: Caller) -> None:
        """Checks that no other process of the caller's installation is connected and answers."""
        live = self._sessions.get(caller.machine_id)
        if live and live.life and caller.life and live.life != caller.life and await live.answers():
            self._refuse(
                caller,
                live,
                f"'{caller.hostname}' and '{live.hostname}' are of the same installation, and '{live.hostname}' is "
                "connected and answers: one has a copy of the other's state directory. Stop one of the agents, remove "
                "its state directory, and join again from there",
            )

    def _refuse(self, caller: Caller, live: Session, reason: str) -> NoReturn:
        self.refused += 1
        self._conflicts[caller.machine_id] = Conflict(caller.hostname, datetime.now(UTC), time.monotonic())
        log.warning(
            "an agent was refused: its machine id is taken",
            extra={"machine": caller.machine_id, "hostname": caller.hostname, "by": live.hostname},
        )
        raise MachineTaken(reason)
