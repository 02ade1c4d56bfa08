"""An agent in this process, and a stand-in for the server, which takes batches and answers as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from scope_agentd.app import serve
from scope_agentd.settings import Settings
from scope_proto.scope.v1 import batch_pb2, ingest_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub
from scope_proto.scope.v1.ingest_pb2_grpc import IngestServicer, add_IngestServicer_to_server

TOKEN = "a token of tests"


class StandInServer(IngestServicer):
    """Stands in for scope_server: no database, each batch answered with `verdict`, or not at all if that is None."""

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], batch_pb2.Batch] = {}
        self.deliveries = 0
        self.hellos: list[ingest_pb2.Hello] = []
        self.tokens: set[str] = set()
        self.verdict: int | None = ingest_pb2.VERDICT_STORED
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def Upload(self, requests: AsyncIterator[ingest_pb2.UploadRequest], context: Any) -> AsyncIterator[Any]:
        self.tokens.add(dict(context.invocation_metadata())["authorization"])
        async for request in requests:
            if request.HasField("hello"):
                self.hellos.append(request.hello)
                continue
            self.deliveries += 1
            if self.verdict is None:
                continue
            batch = request.batch
            if self.verdict == ingest_pb2.VERDICT_STORED:
                self.batches[batch.task_id, batch.sequence] = batch
            yield ingest_pb2.UploadReply(task_id=batch.task_id, sequence=batch.sequence, verdict=self.verdict)

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_IngestServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server:
            await self._server.stop(grace=None)
            self._server = None

    def rows(self, task_id: str, stream: str) -> list[dict[str, Any]]:
        """The rows of a stream as dicts, in order of their sequence."""
        rows: list[dict[str, Any]] = []
        for (task, _), batch in sorted(self.batches.items()):
            if task == task_id and batch.stream == stream and batch.event_count:
                rows += pa.ipc.open_stream(batch.arrow_ipc).read_all().to_pylist()
        return rows

    def account(self, task_id: str, stream: str) -> batch_pb2.Account:
        """The stream's books as last told."""
        told = [b for (task, _), b in sorted(self.batches.items()) if task == task_id and b.stream == stream]
        return told[-1].account if told else batch_pb2.Account()


class Agent:
    """A running agent, its settings and a stub that shows the token."""

    def __init__(self, settings: Settings, control: AgentControlStub, address: str) -> None:
        self.settings, self.control, self.address = settings, control, address


def call_metadata() -> tuple[tuple[str, str], ...]:
    """What a caller shows."""
    return (("authorization", f"Bearer {TOKEN}"),)


@pytest.fixture
async def server() -> AsyncIterator[StandInServer]:
    stand_in = StandInServer()
    await stand_in.start()
    yield stand_in
    await stand_in.stop()


@pytest.fixture
def start_agent(tmp_path: Path, server: StandInServer) -> Callable[..., Any]:
    """Runs an agent for a `async with` block: `async with start_agent(queue_bytes=...) as agent`."""

    @asynccontextmanager
    async def start(**changes: Any) -> AsyncIterator[Agent]:
        token = tmp_path / "token"
        token.write_text(TOKEN)
        given = {"server": f"127.0.0.1:{server.port}", "control": "127.0.0.1:0", "metrics": "127.0.0.1:0", **changes}
        settings = Settings(state_dir=tmp_path, token_file=token, **given)
        stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
        running = asyncio.create_task(serve(settings, stop, address.set_result))
        done, _ = await asyncio.wait([running, address], return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running
        async with grpc.aio.insecure_channel(address.result()) as channel:
            try:
                yield Agent(settings, AgentControlStub(channel), address.result())  # type: ignore[no-untyped-call]
            finally:
                stop.set()
                await running

    return start
