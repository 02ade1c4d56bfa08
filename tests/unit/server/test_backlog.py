"""The backlog of waiting records: bounded, in order, each record answered once."""

import asyncio
import uuid
from itertools import count

import pytest

from scope_proto.scope.v1.record_pb2 import Batch, Record
from scope_server.ingest.backlog import GROUP_EVENTS, Backlog, Pending
from scope_server.machine import Machine
from scope_server.store.writing.delivery import STORED, Outcome, Verdict

MACHINE, OTHER = Machine(1, "a", "i", 0), Machine(2, "b", "i", 0)
_sequences = count(1)


def _pending(run: bytes = b"r" * 16, weight: int = 10, events: int = 1, machine: Machine = MACHINE) -> Pending:
    record = Record(run_id=run, batch=Batch(sequence=next(_sequences), event_count=events))
    return Pending(record, machine, weight, lambda _: None)


def _sequence(pending: Pending) -> int:
    return int(pending.record.batch.sequence)


async def _take(backlog: Backlog, lane: int) -> list[Pending]:
    return await asyncio.to_thread(backlog.take, lane)


async def test_a_runs_records_stay_in_one_lane_in_order() -> None:
    """All records of a run are in one lane, in the order of their puts."""
    backlog = Backlog(1 << 20, lanes=3)
    runs = [uuid.uuid4().bytes for _ in range(20)]
    brought = {run: [_pending(run) for _ in range(5)] for run in runs}
    for records in zip(*brought.values(), strict=True):
        for pending in records:
            await backlog.put(pending)
    backlog.close()
    taken = [[one for _ in range(20) for one in await _take(backlog, lane)] for lane in range(3)]
    assert sum(map(len, taken)) == 100
    for run, records in brought.items():
        (lane,) = [lane for lane in taken if records[0] in lane]
        assert [one for one in lane if one.record.run_id == run] == records


async def test_who_brings_more_than_there_is_room_for_waits() -> None:
    """A put without room waits until taken records are settled; waiting puts are served in order."""
    backlog = Backlog(100, lanes=1)
    await backlog.put(_pending(weight=60))
    order: list[str] = []

    async def bring(name: str, weight: int) -> None:
        await backlog.put(_pending(weight=weight))
        order.append(name)

    bringing = [asyncio.create_task(bring("large", 70))]
    await asyncio.sleep(0)
    bringing.append(asyncio.create_task(bring("small", 10)))
    group = await _take(backlog, 0)
    await asyncio.sleep(0.05)
    assert (order, backlog.held_bytes) == ([], 60)
    await asyncio.to_thread(backlog.settle, group, [STORED])
    await asyncio.gather(*bringing)
    assert (order, backlog.held_bytes) == (["large", "small"], 80)


async def test_a_record_larger_than_the_bound_is_let_in_alone() -> None:
    """A record larger than the bound enters an empty backlog: otherwise it would wait for ever."""
    backlog = Backlog(100, lanes=1)
    await backlog.put(_pending(weight=1_000))
    assert backlog.held_bytes == 1_000


@pytest.mark.parametrize(
    ("events", "weight", "size"), [(GROUP_EVENTS // 3, 10, 3), (GROUP_EVENTS * 2, 10, 1), (1, 40 << 20, 1)]
)
async def test_groups_are_bounded(events: int, weight: int, size: int) -> None:
    """A group is limited in rows and bytes; a record beyond a limit is a group of its own."""
    backlog = Backlog(1 << 40, lanes=1)
    for _ in range(7):
        await backlog.put(_pending(events=events, weight=weight))
    assert len(await _take(backlog, 0)) == size


async def test_each_is_answered_once_in_the_loop() -> None:
    """Each record is answered once, though another thread settles it; refusals and deferrals are counted by code."""
    backlog = Backlog(1 << 20, lanes=1)
    answers: list[tuple[int, Outcome]] = []
    outcomes = [STORED, Outcome(Verdict.REFUSED, "bad", "corrupt"), Outcome(Verdict.LATER, "new", "newer")]
    for number in range(3):
        record = Record(run_id=b"r" * 16, batch=Batch(sequence=number + 1))
        await backlog.put(Pending(record, MACHINE, 10, lambda outcome, n=number: answers.append((n, outcome))))  # type: ignore[misc]
    group = await _take(backlog, 0)
    await asyncio.to_thread(backlog.settle, group, outcomes)
    while backlog.held_bytes:
        await asyncio.sleep(0)
    assert answers == list(enumerate(outcomes))
    assert (backlog.counts.refused, backlog.counts.deferred) == ({"corrupt": 1}, {"newer": 1})


async def test_it_knows_of_which_machines_it_holds_records() -> None:
    """The backlog holds a machine's records until they are settled, also after they are taken."""
    backlog = Backlog(1 << 20, lanes=1)
    await backlog.put(_pending(machine=OTHER))
    assert (backlog.holds(OTHER.key), backlog.holds(MACHINE.key)) == (True, False)
    group = await _take(backlog, 0)
    assert backlog.holds(OTHER.key)
    await asyncio.to_thread(backlog.settle, group, [STORED])
    while backlog.held_bytes:
        await asyncio.sleep(0)
    assert not backlog.holds(OTHER.key)


async def test_when_closed_what_waits_is_still_taken() -> None:
    """A closed backlog still gives its waiting records, then none; abandon() removes and returns waiting records."""
    backlog = Backlog(1 << 20, lanes=1)
    pending = _pending()
    await backlog.put(pending)
    backlog.close()
    assert await _take(backlog, 0) == [pending]
    assert await _take(backlog, 0) == []
    await backlog.put(pending)
    assert backlog.abandon() == [pending]
    assert await _take(backlog, 0) == []
