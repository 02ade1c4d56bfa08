"""One agent's session: what it has reported, what it is to be told, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scope_proto.scope.v1 import control_pb2, session_pb2
from scope_server.errors import AgentUnavailable, NoSession, SessionError
from scope_server.machine import Machine
from scope_wire.limits import SILENCE_S


class Session:
    """Begins with a Hello on Attend; ends with that stream, after a silence, or when it is replaced.

    Attributes:
        clock_ahead_ns: the machine's clock less ours, when it reported last.
        spool: what waited on the agent's disk when it reported last.
        open_runs: of the first report, which `reported` tells of.
        tasks: the origin of each task that it has reported, by id.
        number: of the latest wish that the agent was told, by this server or another.
        takes_records: whether it may upload.
        nudged: set when the agent and what is wanted of it may have come to differ.
        gone: set when nothing works for this session any more.
    """

    def __init__(self, machine: Machine, hostname: str, clock_ahead_ns: int) -> None:
        self.machine, self.hostname, self.clock_ahead_ns = machine, hostname, clock_ahead_ns
        self.spool: session_pb2.Spool | None = None
        self.open_runs: frozenset[str] = frozenset()
        self.tasks: dict[str, str] = {}
        self.number = 0
        self.takes_records = False
        self.reported = asyncio.Event()
        self.nudged = asyncio.Event()
        self.gone = asyncio.Event()
        self._end: SessionError | None = None
        self._silence: asyncio.Timeout | None = None
        self._uploads: set[asyncio.Timeout] = set()
        self._wanted: session_pb2.Wanted | None = None
        self._asked = 0
        self._probes: asyncio.Future[control_pb2.ListProbesResponse] | None = None
        self._outgoing = asyncio.Event()

    @property
    def reason(self) -> str:
        """Why it is over; empty while it is not."""
        return str(self._end or "")

    @asynccontextmanager
    async def attended(self) -> AsyncIterator[None]:
        """The life of the session.

        Raises:
            SessionError: it was ended, or nothing was heard for too long.
        """
        try:
            async with asyncio.timeout(SILENCE_S) as self._silence:
                if self._end:
                    raise self._end
                yield
        except TimeoutError:
            if not self._silence or not self._silence.expired():
                raise
            raise self._end or NoSession(f"nothing was heard of the agent for {SILENCE_S:g} s") from None
        finally:
            self._silence = None

    @asynccontextmanager
    async def uploading(self) -> AsyncIterator[None]:
        """The life of its Upload stream, of which it has one: another ends this one, and so does the session's end.

        Raises:
            SessionError: it was ended.
        """
        if self._end:
            raise NoSession(self.reason)
        self._cut_uploads()
        try:
            async with asyncio.timeout(None) as scope:
                self._uploads.add(scope)
                try:
                    yield
                finally:
                    self._uploads.discard(scope)
        except TimeoutError:
            if not scope.expired():
                raise
            raise NoSession(self.reason or "another Upload has begun") from None

    def heard(self) -> None:
        """Takes note of a sign of life."""
        if self._silence and not self._end:
            self._silence.reschedule(asyncio.get_running_loop().time() + SILENCE_S)

    def end(self, why: SessionError) -> None:
        """Ends it from the next turn of the loop on; the first reason counts."""
        if self._end:
            return
        self._end = why
        self._cut_uploads()
        if self._silence and not self._silence.expired():
            self._silence.reschedule(asyncio.get_running_loop().time())
        if self._probes and not self._probes.done():
            self._probes.set_exception(AgentUnavailable(f"the agent's session has ended: {why}"))

    def wish(self, wanted: session_pb2.Wanted) -> None:
        """Has the agent told what is wanted, in place of what it was not told yet."""
        self._wanted = wanted
        self._outgoing.set()

    async def probes(self) -> control_pb2.ListProbesResponse:
        """What the agent's host allows; whoever asks while the agent is asked gets the same answer.

        Raises:
            AgentUnavailable: the session ended before the answer came.
        """
        if self._probes is None or self._probes.done():
            self._probes = asyncio.get_running_loop().create_future()
            self._probes.add_done_callback(lambda done: done.exception())  # who asked may have gone away
            self._asked += 1
            self._outgoing.set()
        return await asyncio.shield(self._probes)

    def answer(self, probes: control_pb2.ListProbesResponse) -> None:
        """Takes the agent's answer to `probes`."""
        if self._probes and not self._probes.done():
            self._probes.set_result(probes)

    async def replies(self) -> AsyncIterator[session_pb2.AttendReply]:
        """What the agent is to be told, without an end."""
        asked = 0
        while True:
            await self._outgoing.wait()
            self._outgoing.clear()
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                yield session_pb2.AttendReply(wanted=wanted)
            if asked < self._asked:
                asked = self._asked
                yield session_pb2.AttendReply(probes_asked=asked)

    def _cut_uploads(self) -> None:
        for scope in self._uploads:
            if not scope.expired():
                scope.reschedule(asyncio.get_running_loop().time())
        self._uploads.clear()
