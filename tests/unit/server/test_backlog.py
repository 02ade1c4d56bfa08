"""The backlog of waiting records: bounded, in order, each record answered once."""

import asyncio
import uuid
from itertools import count

import pytest

from scope_proto.scope.v1.record_pb2 import Batch, Record
from scope_server.ingest.backlog import SHARE, Backlog
from scope_server.ingest.pending import Pending
from scope_server.ingest.turns import GROUP_EVENTS
from scope_server.machine import Machine
from scope_server.store.writing.delivery import STORED, Outcome, Verdict

MACHINE, OTHER, THIRD = (Machine(key, str(key), "i", 0) for key in (1, 2, 3))
_sequences = count(1)


def _pending(run: bytes = b"r" * 16, weight: int = 10, events: int = 1, machine: Machine = MACHINE) -> Pending:
    record = Record(run_id=run, batch=Batch(sequence=next(_sequences), event_count=events))
    return Pending(record, machine, weight, lambda _: None)


def _sequence(pending: Pending) -> int:
    return int(pending.record.batch.sequence)


async def _take(backlog: Backlog, lane: int) -> list[Pending]:
    return await asyncio.to_thread(backlog.take, lane) or []


async def _settle(backlog: Backlog, group: list[Pending]) -> None:
    backlog.settle(0, group, [STORED] * len(group))
    await asyncio.sleep(0)


async def test_a_runs_records_stay_in_one_lane_in_order() -> None:
    """All records of a run are in one lane, in the order of their puts."""
    backlog = Backlog(1 << 20, lanes=3)
    runs = [uuid.uuid4().bytes for _ in range(20)]
    brought = {run: [_pending(run) for _ in range(5)] for run in runs}
    for round_ in zip(*brought.values(), strict=True):
        for pending in round_:
            await backlog.put(pending)
    backlog.close()
    taken = [[one for _ in range(20) for one in await _take(backlog, lane)] for lane in range(3)]
    assert sum(map(len, taken)) == 100
    for run, records in brought.items():
        (lane,) = [lane for lane in taken if records[0] in lane]
        assert [one for one in lane if one.record.run_id == run] == records


async def test_who_brings_more_than_there_is_room_for_waits() -> None:
    """A put without room waits until taken records are settled; a small record does not overtake a large one."""
    backlog = Backlog(100, lanes=1)
    await backlog.put(_pending(weight=60))
    order: list[str] = []

    async def bring(name: str, weight: int, machine: Machine) -> None:
        await backlog.put(_pending(weight=weight, machine=machine))
        order.append(name)

    bringing = [asyncio.create_task(bring("large", 70, OTHER))]
    await asyncio.sleep(0)
    bringing.append(asyncio.create_task(bring("small", 10, THIRD)))
    group = await _take(backlog, 0)
    await asyncio.sleep(0.05)
    assert (order, backlog.held_bytes) == ([], 60)
    await asyncio.to_thread(backlog.settle, 0, group, [STORED])
    await asyncio.gather(*bringing)
    assert (order, backlog.held_bytes) == (["large", "small"], 80)


async def test_a_machine_holds_its_share_and_no_more() -> None:
    """Beyond its share of the bound, a machine waits; others do not wait for it."""
    backlog = Backlog(100 * SHARE, lanes=1)
    await backlog.put(_pending(weight=100))
    beyond = asyncio.create_task(backlog.put(_pending(weight=1)))
    await asyncio.sleep(0)
    await backlog.put(_pending(weight=100, machine=OTHER))
    assert (beyond.done(), backlog.held_bytes) == (False, 200)
    mine = [one for one in await _take(backlog, 0) if one.machine is MACHINE]
    await asyncio.to_thread(backlog.settle, 0, mine, [STORED])
    await beyond
    assert backlog.held_bytes == 101


async def test_who_holds_least_is_next() -> None:
    """If the backlog is full, space goes to the waiting machine that holds least, not to the one that waits longest."""
    backlog = Backlog(12, lanes=1)
    first = [_pending(weight=1), _pending(weight=11, machine=OTHER)]
    for pending in first:
        await backlog.put(pending)
    waiting = {
        name: asyncio.create_task(backlog.put(_pending(weight=1, machine=machine)))
        for name, machine in (("holds one", MACHINE), ("holds none", THIRD))
    }
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting.values())
    await _settle(backlog, first[1:])
    await asyncio.gather(*waiting.values())
    taken = await _take(backlog, 0)
    assert [one.machine.key for one in taken][-2:] == [3, 1]


async def test_a_put_that_is_cancelled_leaves_no_trace() -> None:
    """A record whose stream ends while it waits for space is forgotten; those behind it are let in."""
    backlog = Backlog(100, lanes=1)
    await backlog.put(_pending(weight=60))
    large = asyncio.create_task(backlog.put(_pending(weight=70, machine=OTHER)))
    await asyncio.sleep(0)
    small = asyncio.create_task(backlog.put(_pending(weight=10, machine=THIRD)))
    await asyncio.sleep(0)
    large.cancel()
    await small
    assert (backlog.held_bytes, backlog.holds(OTHER.key)) == (70, False)


async def test_it_tells_how_long_the_oldest_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The age of the oldest record counts from its put, also while it waits for space, until it is settled."""
    backlog, clock = Backlog(100, lanes=1), 1000.0
    monkeypatch.setattr("scope_server.ingest.backlog.time.monotonic", lambda: clock)
    assert backlog.oldest_s == 0
    first = _pending(weight=100)
    await backlog.put(first)
    clock = 1007.0
    outside = asyncio.create_task(backlog.put(_pending(weight=1, machine=OTHER)))
    await asyncio.sleep(0)
    clock = 1010.0
    assert backlog.oldest_s == 10
    await _settle(backlog, [first])
    assert backlog.oldest_s == 3
    await outside


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
        await backlog.put(Pending(record, MACHINE, 10, lambda outcome, n=number: answers.append((n, outcome))))
    group = await _take(backlog, 0)
    await asyncio.to_thread(backlog.settle, 0, group, outcomes)
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
    await _settle(backlog, group)
    assert not backlog.holds(OTHER.key)


async def test_a_thread_is_told_that_nothing_came_in_time() -> None:
    """take() returns None when its time is over, which is not the empty group of a closed backlog."""
    backlog = Backlog(1 << 20, lanes=1)
    assert await asyncio.to_thread(backlog.take, 0, 0.01) is None
    pending = _pending()
    await backlog.put(pending)
    assert await asyncio.to_thread(backlog.take, 0, 0.01) == [pending]
    backlog.close()
    assert await asyncio.to_thread(backlog.take, 0, 0.01) == []


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
