"""A real agent, and a sink in the server's place that acknowledges each batch and keeps nothing."""

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

from scope_proto.scope.v1 import control_pb2, ingest_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub
from scope_proto.scope.v1.ingest_pb2_grpc import IngestServicer, add_IngestServicer_to_server

TOKEN = "bench"
CONTROL, METRICS = "127.0.0.1:18482", "127.0.0.1:18483"
TICKS_PER_SECOND = 100  # USER_HZ, proc(5)


class Sink(IngestServicer):
    """Takes everything."""

    def __init__(self) -> None:
        self.events = 0
        self.lost = 0  # the most that a stream's books have told
        self.server: grpc.aio.Server | None = None

    async def Upload(self, requests: AsyncIterator[ingest_pb2.UploadRequest], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            if request.HasField("batch"):
                batch = request.batch
                self.events += batch.event_count
                self.lost = max(self.lost, sum(loss.count for loss in batch.account.lost))
                yield ingest_pb2.UploadReply(
                    task_id=batch.task_id, sequence=batch.sequence, verdict=ingest_pb2.VERDICT_STORED
                )


@dataclass
class Agent:
    """The agent's process, as /proc shows it."""

    pid: int
    sink: Sink

    @property
    def resident_mb(self) -> float:
        """Memory resident, 10^6 bytes as the figures of the issue are."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6

    @property
    def cpu_seconds(self) -> float:
        """User and system time."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def start(self, request: control_pb2.StartTaskRequest) -> None:
        """Starts a task; returns when it records."""
        with grpc.insecure_channel(CONTROL) as channel:
            AgentControlStub(channel).StartTask(request, metadata=[("authorization", f"Bearer {TOKEN}")])


@contextmanager
def running_agent() -> Iterator[Agent]:
    """An agent that sends to a sink."""
    loop, sink = asyncio.new_event_loop(), Sink()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    port = asyncio.run_coroutine_threadsafe(_serve(sink), loop).result()
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        (Path(folder) / "token").write_text(TOKEN)
        words = ["--state-dir", folder, "--server", f"127.0.0.1:{port}", "--control", CONTROL, "--metrics", METRICS]
        process = subprocess.Popen(
            [sys.executable, "-m", "scope_cli.main", "agentd", *words], stderr=subprocess.DEVNULL
        )
        try:
            with grpc.insecure_channel(CONTROL) as channel:
                grpc.channel_ready_future(channel).result(timeout=30)
            yield Agent(process.pid, sink)
        finally:
            process.terminate()
            process.wait()
    loop.call_soon_threadsafe(loop.stop)


async def _serve(sink: Sink) -> int:
    sink.server = grpc.aio.server()
    add_IngestServicer_to_server(sink, sink.server)
    port = sink.server.add_insecure_port("127.0.0.1:0")
    await sink.server.start()
    return port
