"""A real agent. In place of the server, a sink acknowledges and discards all batches."""

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from tests.fleet import make_member, of_person

from scope_proto.scope.v1 import control_pb2, record_pb2, session_pb2, task_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub
from scope_proto.scope.v1.session_pb2_grpc import SessionServicer, add_SessionServicer_to_server
from scope_server.identity.authority import Authority
from scope_wire.channel import channel_credentials, listen
from scope_wire.endpoint import Endpoint
from scope_wire.identity import AGENT_NAME, Identity, Kind

CONTROL, METRICS = "127.0.0.1:18482", "127.0.0.1:18483"
TICKS_PER_SECOND = 100  # USER_HZ, proc(5)


class Sink(SessionServicer):
    """Acknowledges all records."""

    def __init__(self) -> None:
        self.events = 0
        self.lost = 0  # the highest loss reported by a stream
        self.server: grpc.aio.Server | None = None

    async def Attend(self, requests: AsyncIterator[session_pb2.AttendRequest], context: Any) -> AsyncIterator[Any]:
        yield session_pb2.AttendReply(wanted=session_pb2.Wanted(number=1))
        async for _ in requests:
            pass

    async def Upload(self, requests: AsyncIterator[session_pb2.UploadRequest], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            if request.HasField("envelope"):
                record = record_pb2.Record.FromString(request.envelope.record)
                self._count(record)
                answer = session_pb2.Answer(position=request.envelope.position, verdict=session_pb2.VERDICT_STORED)
                yield session_pb2.UploadReply(answers=[answer])

    async def Annotate(self, request: Any, context: Any) -> Any:
        """Nobody annotates."""

    async def Renew(self, request: Any, context: Any) -> Any:
        """Nobody renews: the certificate outlives the measurement."""

    def _count(self, record: record_pb2.Record) -> None:
        self.events += record.batch.event_count
        self.lost += sum(span.events for span in record.gap.spans)
        for account in (record.batch.account, *record.accounts.streams.values(), *record.end.accounts.streams.values()):
            self.lost = max(self.lost, sum(loss.count for loss in account.lost))


@dataclass
class Agent:
    """The agent's process, measured through /proc."""

    pid: int
    sink: Sink
    authority: Authority

    @property
    def resident_mb(self) -> float:
        """Resident memory in units of 10^6 bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6

    @property
    def cpu_seconds(self) -> float:
        """User and system time."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def start(self, definition: task_pb2.Definition) -> None:
        """Starts a task; returns when it records."""
        request = control_pb2.StartTaskRequest(definition=definition)
        with _channel(self.authority) as channel:
            AgentControlStub(channel).StartTask(request)


@contextmanager
def running_agent() -> Iterator[Agent]:
    """An agent that sends to a sink."""
    loop, sink = asyncio.new_event_loop(), Sink()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        authority = Authority(Path(folder) / "authority")
        port = asyncio.run_coroutine_threadsafe(_serve(sink, authority), loop).result()
        make_member(Path(folder), authority, f"127.0.0.1:{port}")
        words = ["--state-dir", folder, "--control", CONTROL, "--metrics", METRICS]
        process = subprocess.Popen(
            [sys.executable, "-m", "scope_cli.main", "agentd", *words], stderr=subprocess.DEVNULL
        )
        try:
            with _channel(authority) as channel:
                grpc.channel_ready_future(channel).result(timeout=30)
            yield Agent(process.pid, sink, authority)
        finally:
            process.terminate()
            process.wait()
    loop.call_soon_threadsafe(loop.stop)


def _channel(authority: Authority) -> grpc.Channel:
    options = [("grpc.ssl_target_name_override", AGENT_NAME)]
    return grpc.secure_channel(CONTROL, channel_credentials(of_person(authority)), options)


async def _serve(sink: Sink, authority: Authority) -> int:
    sink.server = grpc.aio.server()
    add_SessionServicer_to_server(sink, sink.server)
    own = authority.issue(Identity(Kind.SERVER))
    port = listen(sink.server, Endpoint("127.0.0.1", 0, lambda: own), of_clients=True).port
    await sink.server.start()
    return port
