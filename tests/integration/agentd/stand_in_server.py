"""A stand-in for scope_server without a database: keeps records and books by the contract, answers as a test sets."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa

from scope_proto.scope.v1 import control_pb2, record_pb2, session_pb2, task_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionServicer, add_SessionServicer_to_server
from scope_server.identity.authority import Authority
from scope_wire.channel import listen, server_options
from scope_wire.endpoint import Endpoint
from scope_wire.frame import opened
from scope_wire.identity import Identity, Kind, caller_of

STORED, LATER, REFUSED = session_pb2.VERDICT_STORED, session_pb2.VERDICT_LATER, session_pb2.VERDICT_REFUSED


@dataclass
class Stream:
    """What the server knows about one stream of a run."""

    batches: dict[int, record_pb2.Batch] = field(default_factory=dict)
    given_up: dict[int, int] = field(default_factory=dict)  # the first sequence of a span -> its events
    settled: set[int] = field(default_factory=set)
    account: record_pb2.Account = field(default_factory=record_pb2.Account)
    repeats: int = 0

    @property
    def stored(self) -> int:
        return sum(batch.event_count for batch in self.batches.values())

    @property
    def lost(self) -> dict[str, int]:
        lost = {f"{loss.place}/{loss.reason}": loss.count for loss in self.account.lost}
        return lost | ({"gap": sum(self.given_up.values())} if self.given_up else {})

    @property
    def balance(self) -> int:
        return self.account.emitted - self.stored - sum(self.lost.values()) - self.account.left_out


@dataclass
class Run:
    """What the server knows about a run."""

    task_id: str
    start: record_pb2.RunStart | None = None
    end: record_pb2.RunEnd | None = None
    streams: dict[str, Stream] = field(default_factory=dict)
    processes: dict[tuple[int, int], record_pb2.Process] = field(default_factory=dict)

    def stream(self, name: str) -> Stream:
        return self.streams.setdefault(name, Stream())

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """The rows of a stream as dicts, in the order of the batches' sequence numbers."""
        batches = sorted(self.stream(stream).batches.items())
        return [row for _, one in batches for row in pa.ipc.open_stream(one.arrow_ipc).read_all().to_pylist()]

    @property
    def closed(self) -> bool:
        """Whether the run has ended and every sequence number is settled."""
        return self.end is not None and all(
            self.stream(name).settled >= set(range(1, last + 1)) for name, last in self.end.last_sequences.items()
        )


class StandInServer(SessionServicer):
    """Answers each record with `verdict`; while `answers` is false, takes records but does not answer.

    While `refuses` is set, every session is refused with it; while `annotates` is false, it knows no annotations.
    """

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.verdict = STORED
        self.answers = True
        self.refuses = ""
        self.refused = 0
        self.runs: dict[str, Run] = {}
        self.uploads = 0
        self.deliveries = 0
        self.hellos: list[session_pb2.Hello] = []
        self.descriptions: list[session_pb2.StreamDescription] = []
        self.callers: set[str] = set()
        self.tasks: dict[str, control_pb2.Task] = {}
        self.reports: list[session_pb2.Report] = []
        self.probes: control_pb2.ListProbesResponse | None = None
        self.annotations: dict[bytes, str] = {}
        self.annotates = True
        self.port = 0
        self._wanted: list[session_pb2.WantedTask] = []
        self._number = 0
        self._outbox: list[asyncio.Queue[session_pb2.AttendReply | None]] = []
        self._server: grpc.aio.Server | None = None

    def want(self, *tasks: session_pb2.WantedTask) -> None:
        """From now on, wants these tasks and no others."""
        self._wanted = list(tasks)
        self._number += 1
        for outbox in self._outbox:
            outbox.put_nowait(self._wish())

    def revoke(self, *serials: str) -> None:
        """Says that these certificates of persons are revoked."""
        for outbox in self._outbox:
            outbox.put_nowait(session_pb2.AttendReply(revoked=session_pb2.Revoked(serials=serials)))

    def break_sessions(self) -> None:
        """Ends every session with an error."""
        for outbox in self._outbox:
            outbox.put_nowait(None)

    def ask_for_probes(self) -> None:
        for outbox in self._outbox:
            outbox.put_nowait(session_pb2.AttendReply(probes_asked=1))

    def _wish(self) -> session_pb2.AttendReply:
        return session_pb2.AttendReply(wanted=session_pb2.Wanted(number=self._number, tasks=self._wanted))

    async def Renew(self, request: Any, context: Any) -> Any:
        """Nobody renews."""

    async def Annotate(self, request: session_pb2.AnnotateRequest, context: Any) -> session_pb2.AnnotateReply:
        if not self.annotates:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "an older server")
        self.annotations |= {one.id: one.text for one in request.annotations}
        return session_pb2.AnnotateReply()

    async def Attend(self, requests: AsyncIterator[session_pb2.AttendRequest], context: Any) -> AsyncIterator[Any]:
        self.callers.add(caller_of(context.auth_context()).identity.uri)
        if self.refuses:
            self.refused += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, self.refuses)
        outbox: asyncio.Queue[session_pb2.AttendReply | None] = asyncio.Queue()
        outbox.put_nowait(self._wish())
        self._outbox.append(outbox)
        reading = asyncio.create_task(self._read(requests))
        try:
            while reply := await outbox.get():
                yield reply
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the session breaks")
        finally:
            self._outbox.remove(outbox)
            reading.cancel()

    async def _read(self, requests: AsyncIterator[session_pb2.AttendRequest]) -> None:
        async for request in requests:
            if request.HasField("hello"):
                self.hellos.append(request.hello)
            elif request.HasField("probes"):
                self.probes = request.probes
            else:
                self.reports.append(request.report)
                self.tasks |= {task.task_id: task for task in request.report.tasks}

    async def Upload(self, requests: AsyncIterator[session_pb2.UploadRequest], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            if request.HasField("hello"):
                self.uploads += 1
                continue
            if request.HasField("description"):
                self.descriptions.append(request.description)
                continue
            self.deliveries += 1
            record = opened(request.envelope.record, request.envelope.crc32)
            if self.verdict == STORED:
                self.take(record)
            if self.answers:
                answer = session_pb2.Answer(position=request.envelope.position, verdict=self.verdict)
                yield session_pb2.UploadReply(answers=[answer])

    def take(self, record: record_pb2.Record) -> None:
        """Stores and books a record by the contract's rules."""
        run = self.runs.setdefault(record.run_id.hex(), Run(str(uuid.UUID(bytes=record.task_id))))
        kind = record.WhichOneof("content")
        if kind == "start":
            run.start = record.start
        elif kind == "batch":
            self._take_batch(run, record.batch)
        elif kind == "gap":
            self._take_gap(run.stream(record.gap.stream), record.gap)
        elif kind == "accounts":
            self._account(run, record.accounts.streams.items())
        elif kind == "end":
            run.end = record.end
            self._account(run, record.end.accounts.streams.items())

    def _take_batch(self, run: Run, batch: record_pb2.Batch) -> None:
        stream = run.stream(batch.stream)
        if batch.sequence in stream.settled:
            stream.repeats += 1
        else:
            stream.settled.add(batch.sequence)
            stream.batches[batch.sequence] = batch
        self._account(run, [(batch.stream, batch.account)])
        run.processes |= {(process.pid, process.start_ns): process for process in batch.processes}

    def _take_gap(self, stream: Stream, gap: record_pb2.Gap) -> None:
        for span in gap.spans:
            covered = set(range(span.first, span.last + 1))
            if covered <= stream.settled:
                continue
            assert not covered & stream.settled, "a span that was settled in part cannot be divided"
            stream.settled |= covered
            stream.given_up[span.first] = span.events

    def _account(self, run: Run, accounts: Iterable[tuple[str, record_pb2.Account]]) -> None:
        for name, account in accounts:
            stream = run.stream(name)
            if account.emitted >= stream.account.emitted:
                stream.account = account

    def of(self, task_id: str) -> Run:
        """The latest run of a task."""
        return self.of_all(task_id)[-1]

    def of_all(self, task_id: str) -> list[Run]:
        """Every run of a task, oldest first."""
        return [run for run in self.runs.values() if run.task_id == task_id]

    async def start(self) -> None:
        self._server = grpc.aio.server(options=server_options())
        add_SessionServicer_to_server(self, self._server)
        own = self.authority.issue(Identity(Kind.SERVER))
        at = Endpoint("127.0.0.1", self.port, lambda: own)
        self.port = listen(self._server, at, of_clients=True).port
        await self._server.start()

    async def stop(self) -> None:
        if self._server:
            await self._server.stop(grace=None)
            self._server = None


def wanted(task_id: str, definition: task_pb2.Definition) -> session_pb2.WantedTask:
    """A task that the server wants."""
    return session_pb2.WantedTask(task_id=task_id, definition=definition)
