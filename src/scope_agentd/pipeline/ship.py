"""The connection to the server: sends batches, takes acknowledgements, comes back when it breaks."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import grpc

from scope_agentd.pipeline.queue import Queue
from scope_proto.scope.v1 import batch_pb2, ingest_pb2
from scope_proto.scope.v1.ingest_pb2_grpc import IngestStub

log = logging.getLogger(__name__)

WINDOW_BYTES = 8 << 20  # sent without an acknowledgement
FIRST_DELAY_S, LAST_DELAY_S = 0.25, 15.0
RETRY_DELAY_S = 0.5


class Shipper:
    """Keeps a stream to the server open for as long as `run` runs."""

    def __init__(
        self, address: str, token: Callable[[], str], hello: Callable[[], ingest_pb2.Hello], queue: Queue
    ) -> None:
        self._address, self._token, self._hello, self._queue = address, token, hello, queue
        self.connected = False
        self.connections = 0
        self.stored_batches = 0
        self.rejected_batches = 0
        self.retried_batches = 0
        self.sent_bytes: dict[str, int] = {}  # of compressed columns, per task

    async def run(self) -> None:
        """Connects, and connects again with growing pauses, until cancelled."""
        delay = FIRST_DELAY_S
        while True:
            stored = self.stored_batches
            try:
                await self._connection()
            except grpc.aio.AioRpcError as error:
                log.warning("no connection to the server", extra={"address": self._address, "reason": error.details()})
            finally:
                self.connected = False
                self._queue.send_all_again()
            delay = FIRST_DELAY_S if self.stored_batches > stored else min(delay * 2, LAST_DELAY_S)
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))

    async def _connection(self) -> None:
        async with grpc.aio.insecure_channel(self._address) as channel:
            metadata = (("authorization", f"Bearer {self._token()}"),)
            call: Any = IngestStub(channel).Upload(metadata=metadata)  # type: ignore[call-arg]  # aio's has no iterator
            await call.write(ingest_pb2.UploadRequest(hello=self._hello()))
            self.connections += 1
            self.connected = True
            sending = asyncio.create_task(self._send(call))
            try:
                async for reply in call:
                    self._settle(reply)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, call: Any) -> None:
        while True:
            batch = await self._queue.next_to_send()
            await call.write(ingest_pb2.UploadRequest(batch=batch))
            self._count_sent(batch)
            while self._queue.sent_bytes > WINDOW_BYTES:
                await self._queue.wait_for_acknowledgement()

    def _count_sent(self, batch: batch_pb2.Batch) -> None:
        self.sent_bytes[batch.task_id] = self.sent_bytes.get(batch.task_id, 0) + len(batch.arrow_ipc)

    def _settle(self, reply: ingest_pb2.UploadReply) -> None:
        key = (reply.task_id, reply.sequence)
        if reply.verdict == ingest_pb2.VERDICT_RETRY:
            self.retried_batches += 1
            asyncio.get_running_loop().call_later(RETRY_DELAY_S, self._queue.send_again, key)
            return
        if reply.verdict == ingest_pb2.VERDICT_REJECTED:
            self.rejected_batches += 1  # the server has booked its events as lost
            log.error("the server rejected a batch", extra={"task": key[0], "sequence": key[1], "reason": reply.reason})
        else:
            self.stored_batches += 1
        self._queue.acknowledge(key)
