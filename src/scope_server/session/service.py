"""The gRPC service scope.v1.Session: authentication and the two streams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import grpc

from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionServicer
from scope_server.errors import (
    InvalidMessage,
    MachineTaken,
    NoSession,
    SessionError,
    StoreUnavailable,
    TooManySessions,
)
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.upload import upload
from scope_server.session.hello import Caller, ahead, caller_of
from scope_server.session.reconcile import Reconciler
from scope_server.session.reported import Reported, reported
from scope_server.session.reports import Reports
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_wire.background import background
from scope_wire.token import shows

log = logging.getLogger(__name__)

_HELLO_S = 10.0
# A grpc.aio client does not get the reason of an ended call if it is writing at that time. By now it has written its
# first messages.
_BEFORE_REFUSAL_S = 0.25
_MOST_TASKS = 10_000  # per session
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (InvalidMessage, grpc.StatusCode.INVALID_ARGUMENT),
    (MachineTaken, grpc.StatusCode.ALREADY_EXISTS),
    (TooManySessions, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NoSession, grpc.StatusCode.UNAVAILABLE),
    (StoreUnavailable, grpc.StatusCode.UNAVAILABLE),
)


class SessionService(SessionServicer):
    """Accepts agents with the right token.

    Handlers read and write through their context, because an `async with` around a `yield` could not be cancelled.
    """

    def __init__(
        self, token: str, sessions: Sessions, reports: Reports, reconciler: Reconciler, backlog: Backlog
    ) -> None:
        self._token, self._sessions, self._reports = token, sessions, reports
        self._reconciler, self._backlog = reconciler, backlog

    async def Attend(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        """See session.proto."""
        async with _explained(context):
            caller, requests = await self._enter(request_iterator, context)
            session = await self._sessions.open(caller)
            try:
                await context.send_initial_metadata(())
                async with session.attended():
                    await self._attend(session, requests, context)
            finally:
                self._sessions.close(session)

    async def _attend(self, session: Session, requests: AsyncIterator[session_pb2.AttendRequest], context: Any) -> None:
        async with background(reconcile=self._reconciler.follow(session), read=self._read(session, requests)):
            async for reply in session.replies():
                await context.write(reply)

    async def Upload(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        """See session.proto."""
        async with _explained(context):
            caller, requests = await self._enter(request_iterator, context)
            session = await self._sessions.attending(caller)
            machine = replace(session.machine, boot_to_utc_ns=caller.boot_to_utc_ns)
            await context.send_initial_metadata(())
            async with session.uploading(), aclosing(upload(requests, machine, self._backlog)) as replies:
                async for reply in replies:
                    await context.write(reply)

    async def _enter(self, request_iterator: Any, context: Any) -> tuple[Caller, AsyncIterator[Any]]:
        """The caller, and the messages after the Hello."""
        shown = dict(context.invocation_metadata() or ()).get("authorization")
        if not shows(shown, self._token):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong")
        requests = aiter(request_iterator)
        try:
            async with asyncio.timeout(_HELLO_S):
                first = await anext(requests, None)
        except TimeoutError:
            raise InvalidMessage(f"hello: no message within {_HELLO_S:g} s") from None
        if first is None or not first.HasField("hello"):
            raise InvalidMessage("hello: the first message must be a Hello")
        return caller_of(first.hello), requests

    async def _read(self, session: Session, requests: AsyncIterator[session_pb2.AttendRequest]) -> None:
        try:
            async for request in requests:
                session.heard()
                if request.HasField("report"):
                    self._take(session, request.report)
                elif request.HasField("probes"):
                    session.answer(request.probes)
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
        if not session.reported.is_set():
            session.open_runs = frozenset(_open_runs(report, told))
        self._reports.put(session.machine, told, session.clock_ahead_ns)
        session.reported.set()
        if told:
            session.nudged.set()


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
async def _explained(context: Any) -> AsyncIterator[None]:
    """Turns errors into a gRPC status for the agent."""
    try:
        yield
    except (SessionError, StoreUnavailable) as error:
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        await asyncio.sleep(_BEFORE_REFUSAL_S)
        await context.abort(code, str(error))
