"""scope.v1.Ingest: takes an agent's stream of batches and answers each when it is committed."""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc

from scope_proto.scope.v1 import batch_pb2, ingest_pb2
from scope_proto.scope.v1.ingest_pb2_grpc import IngestServicer
from scope_server.control.agents import Agents
from scope_server.errors import InvalidSettings, Rejected, StoreUnavailable
from scope_server.ingest.admit import identity
from scope_server.ingest.queue import BatchQueue
from scope_server.settings import loopback_address
from scope_server.store.delivery import Outcome, Verdict
from scope_server.token import Token

log = logging.getLogger(__name__)

_VERDICTS = {
    Verdict.STORED: ingest_pb2.VERDICT_STORED,
    Verdict.REJECTED: ingest_pb2.VERDICT_REJECTED,
    Verdict.RETRY: ingest_pb2.VERDICT_RETRY,
}


class IngestService(IngestServicer):
    """Hands batches to the queue, which makes a fast agent wait, and outcomes back to the agent."""

    def __init__(self, token: Token, queue: BatchQueue, agents: Agents) -> None:
        self._token, self._queue, self._agents = token, queue, agents

    async def Upload(
        self, requests: AsyncIterator[ingest_pb2.UploadRequest], context: Any
    ) -> AsyncIterator[ingest_pb2.UploadReply]:
        """A Hello, then batches; see ingest.proto."""
        if not self._token.is_shown_by(dict(context.invocation_metadata() or ()).get("authorization")):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong")
        hello = await self._hello(requests, context)
        try:
            machine = await self._agents.register(hello.node)
        except StoreUnavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        async with self._agents.connected(machine, hello.node.machine_id, hello.control_address):
            replies: asyncio.Queue[ingest_pb2.UploadReply | None] = asyncio.Queue()
            reading = asyncio.create_task(self._read(requests, machine, hello.node.machine_id, replies))
            try:
                while (reply := await replies.get()) is not None:
                    yield reply
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _hello(self, requests: AsyncIterator[ingest_pb2.UploadRequest], context: Any) -> ingest_pb2.Hello:
        first = await anext(aiter(requests), None)
        if first is None or not first.HasField("hello") or not first.hello.node.machine_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a Hello with a machine_id")
            raise AssertionError
        try:
            loopback_address(first.hello.control_address, "control_address")
        except InvalidSettings as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return first.hello

    async def _read(
        self,
        requests: AsyncIterator[ingest_pb2.UploadRequest],
        machine: int,
        machine_id: str,
        replies: asyncio.Queue[ingest_pb2.UploadReply | None],
    ) -> None:
        outcomes: set[asyncio.Future[Outcome]] = set()
        async for request in requests:
            if not request.HasField("batch"):
                continue
            batch = request.batch
            try:
                task_id = identity(batch, machine_id)
            except Rejected as error:
                log.warning("batch rejected", extra={"machine": machine_id, "reason": str(error)})
                replies.put_nowait(_reply(batch, Outcome(Verdict.REJECTED, str(error))))
                continue
            outcome = await self._queue.put(batch, machine, task_id)
            outcomes.add(outcome)
            outcome.add_done_callback(outcomes.discard)
            outcome.add_done_callback(partial(_answer, replies, batch))
        while outcomes:
            await asyncio.wait(set(outcomes))
            await asyncio.sleep(0)  # lets their callbacks put the replies first
        replies.put_nowait(None)


def _answer(
    replies: asyncio.Queue[ingest_pb2.UploadReply | None], batch: batch_pb2.Batch, done: asyncio.Future[Outcome]
) -> None:
    if not done.cancelled():
        replies.put_nowait(_reply(batch, done.result()))


def _reply(batch: batch_pb2.Batch, outcome: Outcome) -> ingest_pb2.UploadReply:
    return ingest_pb2.UploadReply(
        task_id=batch.task_id, sequence=batch.sequence, verdict=_VERDICTS[outcome.verdict], reason=outcome.reason
    )
