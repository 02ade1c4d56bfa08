"""The gRPC service scope.v1.Session: who may call, the two streams, and new certificates."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import grpc

from scope_proto.scope.v1 import enrolment_pb2, session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionServicer
from scope_server.errors import (
    ComeAgain,
    InvalidMessage,
    MachineTaken,
    NoSession,
    NotAdmitted,
    SessionError,
    StoreUnavailable,
    TooManyRequests,
    TooManySessions,
)
from scope_server.identity.answer import Answers
from scope_server.identity.peers import address_of
from scope_server.identity.register import Register
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.upload import upload
from scope_server.limits import Limits
from scope_server.session.acknowledged import acknowledged
from scope_server.session.annotate import RATE, annotations_of
from scope_server.session.hello import Caller, ahead, caller_of
from scope_server.session.reconcile import Reconciler
from scope_server.session.reported import Reported, reported
from scope_server.session.reports import Reports
from scope_server.session.seen import Seen
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_server.store.annotations import Annotations
from scope_server.store.schema.tables import Tables
from scope_wire.background import background
from scope_wire.channel import pushback
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import Holder, Kind
from scope_wire.identity import caller_of as holder_of_call
from scope_wire.refused.refusals import Reason, Refusals

log = logging.getLogger(__name__)

_HELLO_S = 10.0
# A grpc.aio client does not get the reason of an ended call if it is writing at that time. By now it has written its
# first messages.
_BEFORE_REFUSAL_S = 0.25
_MOST_TASKS = 10_000  # per session
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (InvalidMessage, grpc.StatusCode.INVALID_ARGUMENT),
    (NotAdmitted, grpc.StatusCode.PERMISSION_DENIED),
    (MachineTaken, grpc.StatusCode.ALREADY_EXISTS),
    (TooManySessions, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TooManyRequests, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (ComeAgain, grpc.StatusCode.UNAVAILABLE),
    (NoSession, grpc.StatusCode.UNAVAILABLE),
    (StoreUnavailable, grpc.StatusCode.UNAVAILABLE),
)


class SessionService(SessionServicer):
    """Accepts agents with a machine's certificate, for this machine only.

    Handlers read and write through their context, because an `async with` around a `yield` could not be cancelled.
    """

    def __init__(
        self,
        register: Register,
        answers: Answers,
        sessions: Sessions,
        *,
        reports: Reports,
        seen: Seen,
        reconciler: Reconciler,
        backlog: Backlog,
        tables: Tables,
        annotations: Annotations,
        limits: Limits,
    ) -> None:
        self._register, self._answers = register, answers
        self._sessions, self._reports, self._seen = sessions, reports, seen
        self._reconciler, self._backlog, self._tables = reconciler, backlog, tables
        self._annotations, self._limits = annotations, limits

    async def Attend(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        """See session.proto."""
        async with _explained(context, self._register.refusals):
            caller, holder, requests = await self._enter(request_iterator, context)
            async with self._sessions.entrance.turn() as turn:
                await self._register.members.know(holder, caller.hostname)
                session = await self._sessions.open(caller, holder)
                if caller.servers:
                    session.misses_addresses = not self._answers.are_known(caller.servers, caller.enrolments)
                try:
                    await context.send_initial_metadata(())
                    async with session.attended(), background(read=self._read(session, requests)):
                        async for reply in session.replies():
                            await context.write(reply)
                            if reply.HasField("wanted"):
                                turn.over()
                finally:
                    self._sessions.close(session)

    async def Upload(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        """See session.proto."""
        async with _explained(context, self._register.refusals):
            caller, _, requests = await self._enter(request_iterator, context)
            session = await self._sessions.attending(caller)
            machine = replace(session.machine, boot_to_utc_ns=caller.boot_to_utc_ns)
            await context.send_initial_metadata(())
            async with session.uploading(), aclosing(upload(requests, machine, self._backlog, self._tables)) as replies:
                async for reply in replies:
                    await context.write(reply)

    async def Renew(self, request: Any, context: Any) -> enrolment_pb2.Certificate:
        """See session.proto."""
        async with _explained(context, self._register.refusals):
            holder = self._machine(context)
            session = self._sessions.get(holder.identity.name)
            hostname = session.hostname if session else None
            signed = await self._register.members.renew(
                request.signing_request, holder, hostname, address_of(context.peer())
            )
            return self._answers.with_certificate(signed)

    async def Annotate(self, request: Any, context: Any) -> session_pb2.AnnotateReply:
        """See session.proto."""
        async with _explained(context, self._register.refusals):
            session = self._sessions.get(self._machine(context).identity.name)
            if session is None:
                raise NoSession("call Attend before Annotate")
            given = list(annotations_of(request, session.machine.key))
            await self._limits.take(RATE, "annotations", session.machine.machine_id, tokens=len(given))
            await self._annotations.put(given)
            return session_pb2.AnnotateReply()

    def _machine(self, context: Any) -> Holder:
        """The machine whose certificate the connection has."""
        try:
            holder = holder_of_call(context.auth_context())
        except InvalidCertificate as error:
            raise NotAdmitted(Reason.NO_CERTIFICATE, str(error)) from None
        if holder.identity.kind is not Kind.MACHINE:
            raise NotAdmitted(
                Reason.NOT_A_MACHINE, f"the certificate is of {holder.identity.uri}; machines have this service"
            )
        self._register.require_member(holder)
        return holder

    async def _enter(self, request_iterator: Any, context: Any) -> tuple[Caller, Holder, AsyncIterator[Any]]:
        """The caller, its certificate's holder, and the messages after the Hello."""
        holder = self._machine(context)
        requests = aiter(request_iterator)
        try:
            async with asyncio.timeout(_HELLO_S):
                first = await anext(requests, None)
        except TimeoutError:
            raise InvalidMessage(f"hello: no message within {_HELLO_S:g} s") from None
        if first is None or not first.HasField("hello"):
            raise InvalidMessage("hello: the first message must be a Hello")
        caller = caller_of(first.hello)
        if caller.machine_id != holder.identity.name:
            raise NotAdmitted(
                Reason.OTHER_MACHINE,
                f"the machine {caller.machine_id} cannot use the certificate of {holder.identity.name}",
            )
        return caller, holder, requests

    async def _read(self, session: Session, requests: AsyncIterator[session_pb2.AttendRequest]) -> None:
        try:
            async for request in requests:
                if request.HasField("report"):
                    session.expect(request.report.next_ms / 1000)
                    self._take(session, request.report)
                elif request.HasField("probes"):
                    self._seen.note_probes(session.machine.key, session.take_probes(request.probes))
                session.heard()
            session.end(NoSession("the agent has ended the stream"))
        except SessionError as error:
            session.end(error)
        await asyncio.Event().wait()  # cancelled when the session ends

    def _take(self, session: Session, report: session_pb2.Report) -> None:
        if report.utc_ns:
            session.clock_ahead_ns = ahead(report.utc_ns)
        if report.HasField("spool"):
            session.spool = report.spool
        if report.wanted_number < 1 << 62:
            session.number = max(session.number, report.wanted_number)
        told = list(_sound(report, session))
        session.tasks |= {one.task["task_id"]: one.task["origin"] for one in told}
        if len(session.tasks) > _MOST_TASKS:
            raise InvalidMessage(f"report.tasks: more than {_MOST_TASKS} tasks")
        if not session.takes_records:  # a slow database keeps the first report waiting, and other runs begin meanwhile
            session.open_runs.update(_open_runs(report, told))
        first = not session.reported
        if first:
            session.acknowledged = tuple(acknowledged(one) for one in report.acknowledged)
            session.stopped = frozenset(one.task["task_id"] for one in told if one.stopped)
        taken = session.leaving if 0 < session.leaving <= report.wanted_number else 0
        if taken:
            session.leaving = 0
        self._reports.put(session.machine, told, taken)
        spool = {field.name: value for field, value in session.spool.ListFields()} if session.spool else None
        self._seen.note(session.machine.key, session.clock_ahead_ns, spool)
        if first:
            session.reported = True
            self._reconciler.begin(session)


def _sound(report: session_pb2.Report, session: Session) -> Iterator[Reported]:
    for task in report.tasks:
        try:
            yield reported(task, session.clock_ahead_ns)
        except InvalidMessage as error:  # the other tasks are still used
            machine = session.machine.machine_id
            log.warning("ignored the report of a task", extra={"machine": machine, "reason": str(error)})


def _open_runs(report: session_pb2.Report, told: list[Reported]) -> Iterator[str]:
    for run_id in report.open_runs:
        if len(run_id) != 16:
            raise InvalidMessage("report.open_runs: a run_id has 16 bytes")
        yield str(UUID(bytes=run_id))
    yield from (str(one.run["run_id"]) for one in told if one.run and one.run["ended"] is None)


@asynccontextmanager
async def _explained(context: Any, refusals: Refusals) -> AsyncIterator[None]:
    """Turns errors into a gRPC status for the agent, and counts refusals."""
    try:
        yield
    except (SessionError, StoreUnavailable, TooManyRequests) as error:
        if isinstance(error, NotAdmitted):
            refusals.note(error.reason, str(error), context.peer())
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        await asyncio.sleep(_BEFORE_REFUSAL_S)
        told = pushback(error.in_s) if isinstance(error, ComeAgain) else ()
        await context.abort(code, str(error), told)
