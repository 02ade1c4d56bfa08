"""The Upload stream: sends spooled records, at most a window ahead of the answers, and settles answered records.

The first batch of a stream follows its description, because the server may be older than this agent.
"""

import asyncio
import logging
from typing import Any

from scope_agentd.errors import SessionEnded
from scope_agentd.node import hello
from scope_agentd.pipeline.descriptions import Descriptions
from scope_agentd.pipeline.spool import Outcome, Spool
from scope_agentd.session.acknowledged import Acknowledged, Answered, to_answer
from scope_agentd.session.stream import write
from scope_proto.scope.v1 import control_pb2, record_pb2, session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_wire.background import TaskGroup
from scope_wire.limits import WINDOW_BYTES

log = logging.getLogger(__name__)

_OUTCOMES = {
    session_pb2.VERDICT_STORED: Outcome.STORED,
    session_pb2.VERDICT_LATER: Outcome.LATER,
    session_pb2.VERDICT_REFUSED: Outcome.REFUSED,
}


class Upload:
    """The agent's side of the stream. Counters start at 0 with the agent.

    Attributes:
        answered: number of records by answer.
    """

    def __init__(
        self, node: control_pb2.Node, spool: Spool, descriptions: Descriptions, acknowledged: Acknowledged
    ) -> None:
        self._node, self._spool, self._descriptions = node, spool, descriptions
        self._acknowledged = acknowledged
        self.answered = dict.fromkeys(Outcome, 0)
        self._ahead: dict[int, tuple[int, Answered | None]] = {}  # unanswered records by position, with their bytes
        self._ahead_bytes = 0
        self._room = asyncio.Event()

    async def run(self, stub: SessionStub) -> None:
        """Uploads until the stream breaks; unanswered records are resent on the next stream.

        Raises:
            grpc.aio.AioRpcError: the stream broke, or the server refused it.
            SessionEnded: the server ended the upload.
        """
        call: Any = stub.Upload()  # type: ignore[call-arg]  # the aio stub takes no iterator
        try:
            await write(call, session_pb2.UploadRequest(hello=hello(self._node)))
            async with TaskGroup() as sending:
                sending.create_task(self._send(call))
                async for reply in call:
                    for answer in reply.answers:
                        self._settle(answer)
                    self._room.set()
                raise SessionEnded("the server ended the upload")
        finally:
            self._ahead.clear()
            self._ahead_bytes = 0
            self._spool.rewind()

    async def _send(self, call: Any) -> None:
        described: set[tuple[str, str]] = set()
        while True:
            spooled = await self._spool.take()
            record = record_pb2.Record.FromString(spooled.record)
            self._ahead[spooled.position] = len(spooled.record), to_answer(record)
            self._ahead_bytes += len(spooled.record)
            stream = record.batch.stream, record.batch.schema_fingerprint
            if record.HasField("batch") and stream not in described:
                described.add(stream)
                await self._describe(call, *stream)
            envelope = session_pb2.Envelope(position=spooled.position, record=spooled.record, crc32=spooled.crc32)
            await write(call, session_pb2.UploadRequest(envelope=envelope))
            while self._ahead_bytes > WINDOW_BYTES:
                self._room.clear()
                await self._room.wait()

    async def _describe(self, call: Any, stream: str, fingerprint: str) -> None:
        if known := self._descriptions.get(stream, fingerprint):
            told = session_pb2.StreamDescription(stream=stream, schema_fingerprint=fingerprint, description=known)
            await write(call, session_pb2.UploadRequest(description=told))

    def _settle(self, answer: session_pb2.Answer) -> None:
        sent = self._ahead.pop(answer.position, None)
        outcome = _OUTCOMES.get(answer.verdict)
        if sent is None or outcome is None:
            log.warning("the server answered a record that was not sent", extra={"position": answer.position})
            return
        size, answered = sent
        self._ahead_bytes -= size
        self.answered[outcome] += 1
        if answered and outcome is not Outcome.LATER:
            self._acknowledged.add(answered)
        if outcome is not Outcome.STORED:
            kind = "postponed" if outcome is Outcome.LATER else "refused"
            log.warning("the server %s a record", kind, extra={"reason": answer.reason})
        self._spool.settle(answer.position, outcome)
