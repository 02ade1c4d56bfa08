"""A lane rests between small groups, so that the records of a while share the cost of a transaction."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from scope_proto.scope.v1.record_pb2 import Batch, Record
from scope_server.ingest import lane as lane_module
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.lane import Lane
from scope_server.ingest.pending import Pending
from scope_server.machine import Machine
from scope_server.store.writing.delivery import STORED, Outcome

MACHINE = Machine(1, "1", "i", 0)
TAKES_S = 0.03  # a group
_sequences = count(1)


class SlowWriter:
    """Stores nothing. Keeps the begin and the end of each group, and how many records it had."""

    def __init__(self) -> None:
        self.groups: list[tuple[float, float, int]] = []

    def write(self, deliveries: Sequence[object]) -> list[Outcome]:
        begin = time.monotonic()
        time.sleep(TAKES_S)
        self.groups.append((begin, time.monotonic(), len(deliveries)))
        return [STORED] * len(deliveries)

    def has_written(self, groups: int) -> bool:
        """Whether it has written this many groups."""
        return len(self.groups) == groups

    def close(self) -> None: ...


@pytest.fixture
def lanes() -> Iterator[Callable[[Backlog], tuple[Lane, SlowWriter]]]:
    """Starts a lane that writes what a backlog has; at the end, it has ended."""
    started: list[tuple[Lane, Backlog]] = []

    def start(backlog: Backlog) -> tuple[Lane, SlowWriter]:
        writer: Any = SlowWriter()
        admits: Any = _admitted
        started.append((Lane(0, backlog, admits, writer, committed=lambda _: None), backlog))
        return started[-1][0], writer

    yield start
    for lane, backlog in started:
        backlog.close()
        lane.join(60)
        assert not lane.alive


def _admitted(record: Record, *_: object) -> SimpleNamespace:
    return SimpleNamespace(content=record)


def _pending(events: int) -> Pending:
    record = Record(run_id=b"r" * 16, batch=Batch(sequence=next(_sequences), event_count=events))
    return Pending(record, MACHINE, 1, lambda _: None)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def test_it_works_a_tenth_of_the_time(lanes: Callable[[Backlog], tuple[Lane, SlowWriter]]) -> None:
    """While records trickle in, it rests nine times as long as a group took, and the next group has them all."""
    backlog = Backlog(1 << 20, lanes=1)
    _, writer = lanes(backlog)
    for _ in range(101):
        await backlog.put(_pending(1))
        await asyncio.sleep(0.01)
    await _until(lambda: sum(records for *_, records in writer.groups) == 101)
    assert len(writer.groups) > 1
    for (begin, end, _), (following, _, _) in zip(writer.groups, writer.groups[1:], strict=False):
        assert following - end >= min(9 * (end - begin), 1.0)


async def test_many_rows_do_not_wait(
    lanes: Callable[[Backlog], tuple[Lane, SlowWriter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a group of many rows, whose own cost is small beside theirs, the next one is written at once; one that is
    closed rests no longer."""
    monkeypatch.setattr(lane_module, "_RESTS", 1e9)
    monkeypatch.setattr(lane_module, "_LONGEST_REST_S", 1e9)
    backlog = Backlog(1 << 20, lanes=1)
    lane, writer = lanes(backlog)
    for number in range(1, 4):
        await backlog.put(_pending(5003))
        await _until(partial(writer.has_written, number))
    await backlog.put(_pending(1))
    await _until(partial(writer.has_written, 4))
    await backlog.put(_pending(1))
    backlog.close()
    await asyncio.to_thread(lane.join, 60)
    assert [records for *_, records in writer.groups] == [1] * 5
