"""Records are taken in the order of their puts, until they are settled."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain, nowhere, take_all

from scope_agentd.errors import RecordTooLarge, SpoolClosed
from scope_agentd.pipeline.spool import Outcome, Spool, deferral
from scope_wire.limits import RECORD_BYTES


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool", 1 << 20, 1 << 12)
    yield made
    made.close()


async def test_records_are_taken_in_order_and_settled(spool: Spool) -> None:
    """The taken bytes are those that were put, with their checksum; settled records are removed from the disk."""
    run = Run(1)
    put = [run.start(), *(run.batch() for _ in range(100)), run.accounts(), run.end()]
    for record in put:
        spool.put(record)
    assert spool.held().records == len(put)
    server, taken = Server(), []

    def receive(record: bytes, crc32: int) -> None:
        taken.append(record)
        server.receive(record, crc32)

    assert await drain(spool, receive) == len(put)
    assert taken == [record.SerializeToString() for record in put]
    server.check(run)
    assert spool.held().bytes == 0


async def test_what_is_settled_takes_no_room(tmp_path: Path) -> None:
    """When all records are settled, no deleted segment stays open, not even the last one of an earlier agent."""
    run = Run(1)
    with contextlib.closing(Spool(tmp_path / "spool", 1 << 20, 1 << 12)) as earlier:
        for _ in range(3):
            earlier.put(run.batch())
    with contextlib.closing(Spool(tmp_path / "spool", 1 << 20, 1 << 12)) as spool:
        taken = [await spool.take() for _ in range(spool.held().records)]
        waiting = asyncio.create_task(spool.take())
        await asyncio.sleep(0)
        for spooled in taken:
            spool.settle(spooled.position, Outcome.STORED)
        async with asyncio.timeout(30):
            while _deleted_and_open(tmp_path):
                await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def _deleted_and_open(folder: Path) -> list[str]:
    opened = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            opened.append(str(entry.readlink()))
    return [file for file in opened if file.startswith(str(folder)) and file.endswith("(deleted)")]


async def test_take_waits_for_a_put_of_another_thread(spool: Spool) -> None:
    """A thread's put wakes the loop that waits in take."""
    taking = asyncio.create_task(spool.take())
    await asyncio.sleep(0)
    threading.Thread(target=spool.put, args=[Run(1).start()]).start()
    assert (await asyncio.wait_for(taking, 30)).position > 0


async def test_a_cancelled_take_loses_nothing(spool: Spool) -> None:
    """After a cancelled take, the next take gets the record."""
    taking = asyncio.create_task(spool.take())
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    spool.put(Run(1).start())
    assert len(await take_all(spool, 1)) == 1


async def test_rewind_takes_again_what_is_not_settled(spool: Spool) -> None:
    """After a lost connection, unsettled records are taken again in order, before new ones, at new positions."""
    run = Run(1)
    for _ in range(200):
        spool.put(run.batch())
    taken = [await spool.take() for _ in range(150)]
    for spooled in taken[::3]:
        spool.settle(spooled.position, Outcome.STORED)
    spool.rewind()
    for spooled in taken:
        spool.settle(spooled.position, Outcome.STORED)  # answers of the lost connection are ignored
    again = [record.batch.sequence for record in await take_all(spool, 150)]
    expected = [sequence for sequence in range(1, 201) if sequence > 150 or sequence % 3 != 1]
    assert again == expected


async def test_later_lets_the_others_go_on(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deferred record is taken again after its pause; meanwhile others are taken, and their segments are deleted."""
    monkeypatch.setattr(deferral, "FIRST_PAUSE_S", 0.5)
    run, loop = Run(1), asyncio.get_running_loop()
    for _ in range(300):
        spool.put(run.batch())
    first = await spool.take()
    deferred_at = loop.time()
    spool.settle(first.position, Outcome.LATER)
    for _ in range(299):
        spool.settle((await spool.take()).position, Outcome.STORED)
    held = spool.held()
    assert (held.records, held.deferred_records) == (1, 1)
    assert held.bytes < 8192  # one segment, not the eight of the other records
    again = await spool.take()
    assert again.record == first.record
    assert loop.time() - deferred_at >= 0.5
    spool.settle(again.position, Outcome.STORED)
    assert spool.held().records == spool.held().deferred_records == 0


async def test_pauses_grow(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deferral at least doubles the record's pause, up to a limit."""
    monkeypatch.setattr(deferral, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(deferral, "LAST_PAUSE_S", 0.2)
    loop = asyncio.get_running_loop()
    spool.put(Run(1).start())
    for least in (0.05, 0.1, 0.2, 0.2):
        spooled = await spool.take()
        before = loop.time()
        spool.settle(spooled.position, Outcome.LATER)
        spooled = await asyncio.wait_for(spool.take(), 30)
        assert loop.time() - before >= least
        spool.rewind()


async def test_rewind_leaves_the_deferred_to_their_time(spool: Spool) -> None:
    """A lost connection does not shorten a deferred record's pause."""
    run = Run(1)
    for _ in range(3):
        spool.put(run.batch())
    taken = [await spool.take() for _ in range(3)]
    spool.settle(taken[0].position, Outcome.LATER)
    spool.rewind()
    assert [record.batch.sequence for record in await take_all(spool, 2)] == [2, 3]
    assert spool.held().deferred_records == 1


async def test_wait_until_empty(spool: Spool) -> None:
    """wait_until_empty returns when the last record is settled, not when it is taken."""
    spool.put(Run(1).start())
    waiting = asyncio.create_task(spool.wait_until_empty())
    spooled = await spool.take()
    await asyncio.sleep(0.05)
    assert not waiting.done()
    spool.settle(spooled.position, Outcome.REFUSED)
    await asyncio.wait_for(waiting, 30)


async def test_runs_of_which_records_are_here(spool: Spool) -> None:
    """runs() lists a run as long as one of its records may still be sent."""
    runs = [Run(1), Run(2)]
    for run in runs:
        spool.put(run.start())
    assert spool.runs() == {run.run_id for run in runs}
    await drain(spool, nowhere)
    assert spool.runs() == set()


def test_the_largest_record(tmp_path: Path) -> None:
    """A record of exactly RECORD_BYTES is accepted; one byte more is refused."""
    record = Run(1).batch(size=RECORD_BYTES - 200)
    record.batch.arrow_ipc += b"x" * (RECORD_BYTES - record.ByteSize())
    assert record.ByteSize() == RECORD_BYTES
    with contextlib.closing(Spool(tmp_path / "large")) as large:
        large.put(record)
        record.batch.arrow_ipc += b"x"
        with pytest.raises(RecordTooLarge, match="split it"):
            large.put(record)


async def test_closing(spool: Spool) -> None:
    """put and a waiting take raise SpoolClosed after close; a second close does nothing."""
    taking = asyncio.create_task(spool.take())
    await asyncio.sleep(0)
    spool.close()
    spool.close()
    with pytest.raises(SpoolClosed):
        await asyncio.wait_for(taking, 30)
    with pytest.raises(SpoolClosed):
        spool.put(Run(1).start())
