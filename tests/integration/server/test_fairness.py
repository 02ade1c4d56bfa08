"""One agent, whatever it sends, does not keep the others waiting: its share of queue, work and retries is bounded."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import psycopg
import pytest
from tests.integration.server.records import REFUSED, STORED, Line, Run, envelope, lined, make_machine, rows
from tests.integration.server.running import until
from tests.integration.server.test_quarantine import TRIGGER

from scope_proto.scope.v1.record_pb2 import Record
from scope_proto.scope.v1.session_pb2 import UploadRequest
from scope_server.ingest.upload import upload
from scope_server.machine import Machine
from scope_server.store.writing import books, transaction


async def test_a_run_of_holes_is_refused_at_once(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of missing sequences, batches are refused in the transaction of their group, and are no longer
    tried alone. Their events are counted as lost, once; what fills a hole is stored."""
    monkeypatch.setattr(books, "_MOST_SPANS", 7)
    written: list[int] = []
    write = transaction.Session.write

    def counted(self: transaction.Session, deliveries: Sequence[Any], *given: int) -> object:
        written.append(len(deliveries))
        return write(self, deliveries, *given)

    monkeypatch.setattr(transaction.Session, "write", counted)
    run = Run()
    odd = [run.batch(2 * n + 1, rows(3, 3 * n), emitted=3 * (n + 1)) for n in range(50)]
    for _ in range(2):
        answers = await line.send(*odd)
        assert [answer.verdict for answer in answers] == [*[STORED] * 7, *[REFUSED] * 43]
        assert "7 spans of earlier sequences are missing" in answers[-1].reason
        assert line.books() == [(150, 21, 129, 0, False)]
        assert line.losses() == {"ingest/holes": 129}
    assert sum(written) == 100  # each record once
    (answer,) = await line.send(run.batch(2, rows(5, 150), emitted=155))
    assert (answer.verdict, line.books()) == (STORED, [(155, 26, 129, 0, False)])


async def test_records_that_fail_keep_no_other_agent_waiting(database: str) -> None:
    """While the records of one machine are refused one by one, those of another are stored, each in its turn."""
    async with lined(database, lanes=1) as line:
        line.query(TRIGGER)
        other = await asyncio.to_thread(make_machine, database, "f" * 32)
        bad, good = Run(), Run()
        assert [answer.verdict for answer in await line.send(good.start(), machine=other)] == [STORED]
        refused: list[int] = []
        with psycopg.connect(database) as blocker:
            blocker.execute("LOCK TABLE store.accounts IN ACCESS EXCLUSIVE MODE")
            records = [bad.batch(n + 1, rows(1, 13), emitted=n + 1) for n in range(40)]
            failing = asyncio.create_task(_answered(line, records, line.machine, refused))
            await until(lambda: _held(line), lambda held: held >= sum(map(Record.ByteSize, records)))
        for n in range(7):
            (answer,) = await line.send(good.batch(n + 1, rows(101, 101 * (n + 1))), machine=other)
            assert answer.verdict == STORED
        assert len(refused) < 20
        await failing
        assert refused == [REFUSED] * 40
        assert line.losses() == {"ingest/refused": 40}


async def _answered(line: Line, records: Sequence[Record], machine: Machine, verdicts: list[int]) -> None:
    async def stream() -> AsyncIterator[UploadRequest]:
        for number, record in enumerate(records):
            yield envelope(record, number)

    async with aclosing(upload(stream(), machine, line.backlog, line.tables)) as replies:
        async for reply in replies:
            verdicts += [answer.verdict for answer in reply.answers]


async def _held(line: Line) -> int:
    return line.backlog.held_bytes
