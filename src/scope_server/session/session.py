"""An agent's session: its reports, the messages to it, and its end."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scope_proto.scope.v1 import control_pb2, session_pb2
from scope_server.errors import NoSession, SessionError
from scope_server.machine import Machine
from scope_server.session.acknowledged import Acknowledged
from scope_server.session.hello import Caller
from scope_wire.identity import Holder
from scope_wire.limits import IDLE_REPORT_EVERY_S, LATE_S, REPORT_EVERY_S

ANSWER_S = 6.0  # for a report that was asked for, of an agent on a busy machine


class Session:
    """A session begins with a Hello on Attend. It ends with this stream, after a silence, or when it is replaced.

    Attributes:
        holder: of the certificate that began it.
        life: of the agent's process.
        clock_ahead_ns: the machine's clock minus ours, at the last report.
        takes_where: whether the agent applies the filters of tasks.
        roots: digests of the authorities that the agent trusts.
        misses_addresses: whether the agent looks for its servers at other addresses than it would be told now.
        spool: size of the agent's spool at the last report.
        reported: whether the first report has arrived.
        open_runs: all open runs that were reported until it takes records.
        acknowledged: from the first report.
        tasks: the origin of each reported task, by id.
        stopped: ids of the reported tasks that had ended on request.
        number: number of the last Wanted that the agent got, from this server or another.
        stored_number: the number that the database has; None: it has none yet.
        told: the rows of the wanted tasks that the agent was told last; None: none yet.
        leaving: number of the last Wanted, if it lacks tasks that the agent was told of before; 0: it does not, or the
            agent has taken it.
        takes_records: whether the agent may upload.
        gone: set when the session is over and all its work has ended.
    """

    def __init__(self, machine: Machine, holder: Holder, caller: Caller) -> None:
        self.machine, self.holder, self.hostname, self.life = machine, holder, caller.hostname, caller.life
        self.clock_ahead_ns, self.takes_where, self.roots = caller.clock_ahead_ns, caller.takes_where, caller.roots
        self.misses_addresses = False
        self.spool: session_pb2.Spool | None = None
        self.open_runs: set[str] = set()
        self.acknowledged: tuple[Acknowledged, ...] = ()
        self.tasks: dict[str, str] = {}
        self.stopped: frozenset[str] = frozenset()
        self.number = 0
        self.stored_number: int | None = None
        self.told: list[dict[str, Any]] | None = None
        self.leaving = 0
        self.takes_records = False
        self.reported = False
        self.gone = asyncio.Event()
        self._spoke = asyncio.Event()  # set, and replaced, whenever the agent is heard
        self._patience_s = REPORT_EVERY_S + LATE_S
        self._end: SessionError | None = None
        self._silence: asyncio.Timeout | None = None
        self._uploads: set[asyncio.Timeout] = set()
        self._wanted: session_pb2.Wanted | None = None
        self._asked = False  # for its probes
        self._report_asked = False
        self._revoked: frozenset[str] | None = None
        self._renewal = False
        self._probes = b""  # the agent's last ListProbesResponse, compressed: thousands of sessions have one each
        self._outgoing = asyncio.Event()

    @property
    def reason(self) -> str:
        """Why the session is over; empty while it is open."""
        return str(self._end or "")

    @asynccontextmanager
    async def attended(self) -> AsyncIterator[None]:
        """Entered during the session.

        Raises:
            SessionError: the session was ended, or the agent was silent for too long.
        """
        try:
            async with asyncio.timeout(self._patience_s) as self._silence:
                if self._end:
                    raise self._end
                yield
        except TimeoutError:
            if not self._silence or not self._silence.expired():
                raise
            raise self._end or NoSession(f"nothing was heard from the agent for {self._patience_s:g} s") from None
        finally:
            self._silence = None

    @asynccontextmanager
    async def uploading(self) -> AsyncIterator[None]:
        """Entered during the session's only Upload stream. Another Upload, or the session's end, ends it.

        Raises:
            SessionError: the stream was ended.
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

    def expect(self, next_s: float) -> None:
        """Notes when the agent says that its next report will come; 0: it does not say it."""
        self._patience_s = min(next_s or REPORT_EVERY_S, IDLE_REPORT_EVERY_S) + LATE_S

    def heard(self) -> None:
        """Notes that the agent was heard."""
        self._spoke.set()
        self._spoke = asyncio.Event()
        if self._silence and not self._end:
            self._silence.reschedule(asyncio.get_running_loop().time() + self._patience_s)

    async def answers(self) -> bool:
        """Whether the agent is heard from now on, if it is asked."""
        self._report_asked = True
        self._outgoing.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                await self._spoke.wait()
            return not self._end
        return False

    def end(self, why: SessionError) -> None:
        """Ends the session at the next turn of the loop; only the first reason is kept."""
        if self._end:
            return
        self._end = why
        self._spoke.set()
        self._cut_uploads()
        if self._silence and not self._silence.expired():
            self._silence.reschedule(asyncio.get_running_loop().time())

    def wish(self, wanted: session_pb2.Wanted) -> None:
        """Sends the wanted tasks to the agent; replaces a message that was not sent yet."""
        self._wanted = wanted
        self._outgoing.set()

    def probes(self) -> control_pb2.ListProbesResponse | None:
        """The probes of the agent's host, as it last told them; None: it has not told them yet."""
        if self._probes:
            return read_probes(self._probes)
        self._asked = True
        self._outgoing.set()
        return None

    def tell_revoked(self, serials: frozenset[str]) -> None:
        """Tells the agent which certificates of persons were revoked, unless it knows."""
        if serials != self._revoked:
            self._revoked = serials
            self._outgoing.set()

    def ask_to_renew(self) -> None:
        """Asks the agent to renew its certificate."""
        self._renewal = True
        self._outgoing.set()

    def take_probes(self, probes: control_pb2.ListProbesResponse) -> bytes:
        """Keeps the probes that the agent tells; returns them compressed, see `read_probes`."""
        self._probes = zlib.compress(probes.SerializeToString())
        return self._probes

    async def replies(self) -> AsyncIterator[session_pb2.AttendReply]:
        """Messages to the agent, endless."""
        asked, revoked = False, None
        while True:
            await self._outgoing.wait()
            self._outgoing.clear()
            if revoked != self._revoked:
                revoked = self._revoked
                yield session_pb2.AttendReply(revoked=session_pb2.Revoked(serials=revoked))
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                yield session_pb2.AttendReply(wanted=wanted)
            if self._asked and not asked:
                asked = True
                yield session_pb2.AttendReply(probes_asked=1)
            if self._report_asked:
                self._report_asked = False
                yield session_pb2.AttendReply(report_asked=True)
            if self._renewal:
                self._renewal = False
                yield session_pb2.AttendReply(renew=True)

    def _cut_uploads(self) -> None:
        for scope in self._uploads:
            if not scope.expired():
                scope.reschedule(asyncio.get_running_loop().time())
        self._uploads.clear()


def read_probes(compressed: bytes) -> control_pb2.ListProbesResponse:
    """The probes that an agent told."""
    return control_pb2.ListProbesResponse.FromString(zlib.decompress(compressed))
