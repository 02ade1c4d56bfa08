"""An agent's Upload stream: checks records, puts them into the backlog, and answers when they are settled."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial

from scope_proto.scope.v1.session_pb2 import (
    VERDICT_LATER,
    VERDICT_REFUSED,
    VERDICT_STORED,
    Answer,
    Envelope,
    UploadReply,
    UploadRequest,
)
from scope_server.errors import Deferred, Rejected
from scope_server.ingest.admit import identify, weigh
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.descriptions import Descriptions
from scope_server.ingest.pending import Pending
from scope_server.machine import Machine
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.delivery import Outcome, Verdict
from scope_wire.errors import DamagedRecord
from scope_wire.frame import opened
from scope_wire.limits import RECORD_BYTES

log = logging.getLogger(__name__)

_VERDICTS = {Verdict.STORED: VERDICT_STORED, Verdict.LATER: VERDICT_LATER, Verdict.REFUSED: VERDICT_REFUSED}
_MOST_UNSENT = 10_000  # answers; beyond, the server stops reading from the agent
_MOST_IN_A_REPLY = 1_000


async def upload(
    requests: AsyncIterator[UploadRequest], machine: Machine, backlog: Backlog, tables: Tables
) -> AsyncGenerator[UploadReply, None]:
    """Answers every record of a stream after its Hello. Ends when the stream has ended and all records are answered.

    While the backlog is full, the stream is not read. If the agent disconnects, its records are still written.

    Args:
        machine: the agent's machine; records of runs on other machines are refused.
        tables: the known streams; the agent describes others before it sends their batches.
    """
    answers = _Answers(machine)
    descriptions = Descriptions(tables, machine.machine_id)
    reading = asyncio.create_task(_read(requests, machine, backlog, answers, descriptions))
    reading.add_done_callback(lambda _: answers.wake())
    try:
        while not (reading.done() and (answers.complete or reading.exception())):
            if some := await answers.some():
                yield UploadReply(answers=some)
        await reading  # raises the error that ended it
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class _Answers:
    # The answers of one stream: those waiting to be sent, and the number still to come.

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._logged: set[str] = set()
        self._waiting: list[Answer] = []
        self._due = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def complete(self) -> bool:
        return not self._due and not self._waiting

    def expect(self) -> None:
        self._due += 1

    def give(self, position: int, outcome: Outcome) -> None:
        if outcome.code and outcome.code not in self._logged:  # one log line per kind
            self._logged.add(outcome.code)
            where = {"machine": self._machine.machine_id, "code": outcome.code, "reason": outcome.reason}
            log.warning("record not stored", extra=where)
        self._due -= 1
        answer = Answer(position=position, verdict=_VERDICTS[outcome.verdict], reason=outcome.reason)
        self._waiting.append(answer)
        self.wake()

    def wake(self) -> None:
        self._changed.set()

    async def some(self) -> list[Answer]:
        # All waiting answers, up to the limit of a reply; waits if there are none.
        if not self._waiting:
            await self._changed.wait()
            self._changed.clear()
        some, self._waiting = self._waiting[:_MOST_IN_A_REPLY], self._waiting[_MOST_IN_A_REPLY:]
        self._room.set()
        return some

    async def taken(self) -> None:
        # Waits until the agent has taken enough answers.
        while len(self._waiting) > _MOST_UNSENT:
            self._room.clear()
            await self._room.wait()


async def _read(
    requests: AsyncIterator[UploadRequest],
    machine: Machine,
    backlog: Backlog,
    answers: _Answers,
    descriptions: Descriptions,
) -> None:
    async for request in requests:
        if request.HasField("description"):
            descriptions.take(request.description)
        if request.WhichOneof("message") != "envelope":
            continue
        await answers.taken()
        answers.expect()
        answer = partial(answers.give, request.envelope.position)
        try:
            pending = _pending(request.envelope, machine, answer, descriptions)
        except Rejected as error:
            outcome = Outcome(Verdict.REFUSED, str(error), error.code)
            backlog.counts.refuse(error.code)
        except Deferred as error:
            outcome = Outcome(Verdict.LATER, str(error), "newer")
            backlog.counts.defer("newer")
        else:
            await backlog.put(pending)
            continue
        answer(outcome)


def _pending(envelope: Envelope, machine: Machine, answer: "partial[None]", descriptions: Descriptions) -> Pending:
    if len(envelope.record) > RECORD_BYTES:
        raise Rejected("too_large", f"a record of {len(envelope.record)} bytes; at most {RECORD_BYTES} are allowed")
    try:
        record = opened(envelope.record, envelope.crc32)
    except DamagedRecord as error:
        raise Rejected("damaged", str(error)) from None
    identify(record)
    described = descriptions.of(record.batch)
    try:
        return Pending(record, machine, len(envelope.record) + weigh(record), answer, described=described)
    except Rejected as error:
        return Pending(record, machine, len(envelope.record), answer, error)
