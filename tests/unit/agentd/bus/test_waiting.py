"""Records between the runs' threads and the bus: bounded, counted, only for those who listen."""

import uuid
from typing import Any

import pytest

from scope_agentd.bus import waiting
from scope_agentd.bus.waiting import Waiting
from scope_proto.scope.v1 import record_pb2, task_pb2

TASK = uuid.UUID("6f1c0d7e-0000-4000-8000-000000000001")
RUN = uuid.UUID("01a20ba7-a8c5-7378-a6f7-618d839f1ba5")


def record(**content: Any) -> record_pb2.Record:
    return record_pb2.Record(task_id=TASK.bytes, run_id=RUN.bytes, **content)


START = record(start=record_pb2.RunStart(definition=task_pb2.Definition(probe="process")))


def batch(number: int, events: int = 10, size: int = 100) -> record_pb2.Record:
    """The batch with this number; all have equally many events."""
    return record(
        batch=record_pb2.Batch(
            stream="exec",
            sequence=number,
            event_count=events,
            events_before=(number - 1) * events,
            arrow_ipc=bytes(size),
            account=record_pb2.Account(emitted=number * events),
        )
    )


def end(emitted: int) -> record_pb2.Record:
    accounts = record_pb2.Accounts(streams={"exec": record_pb2.Account(emitted=emitted)})
    return record(end=record_pb2.RunEnd(accounts=accounts))


class Taken:
    """A `Waiting`, and how often it woke the bus."""

    def __init__(self) -> None:
        self.wakes = 0
        self.waiting = Waiting(self._wake)
        self.waiting.put(START)

    def _wake(self) -> None:
        self.wakes += 1

    def sequences(self) -> list[int]:
        return [record.batch.sequence for _, record in self.waiting.take()[0]]

    def told(self) -> list[tuple[int, bool]]:
        """Positions that are told now: the number of the next event, and whether the run has ended."""
        return [(message.events_before, message.ended) for _, message in self.waiting.take()[1]]


def test_nothing_waits_for_nobody() -> None:
    """Without a listener to its topic no record is kept, and the bus sleeps."""
    taken = Taken()
    taken.waiting.put(batch(1))
    taken.waiting.join(b"fork/")
    taken.waiting.put(batch(2))
    taken.waiting.join(b"exec/")
    taken.waiting.leave(b"exec/")
    taken.waiting.put(batch(3))
    assert (taken.sequences(), taken.wakes) == ([], 0)


def test_records_wait_in_order() -> None:
    """Records of a topic that somebody listens to come in order, with their run."""
    taken = Taken()
    taken.waiting.join(f"exec/{TASK}"[:20].encode())
    for number in (1, 2, 3):
        taken.waiting.put(batch(number))
    records, _ = taken.waiting.take()
    assert [record.batch.sequence for _, record in records] == [1, 2, 3]
    assert {(source.task, source.run, source.probe) for source, _ in records} == {(str(TASK), str(RUN), "process")}
    assert taken.wakes == 3


def test_there_is_a_bound() -> None:
    """Records beyond the bound are dropped and their events counted; the position goes on, so readers see the gap."""
    taken = Taken()
    taken.waiting.join(b"")
    fitting = waiting.MOST_BYTES // (1 << 20)
    for number in range(1, fitting + 4):
        taken.waiting.put(batch(number, size=1 << 20))
    assert taken.waiting.dropped() == {"exec": 3 * 10}
    assert taken.sequences() == list(range(1, fitting + 1))
    taken.waiting.put(batch(fitting + 4))
    assert taken.sequences() == [fitting + 4]


def test_a_new_listener_is_told_the_position_at_once() -> None:
    """A reader that joins a run learns the number of the next event, whether or not there are new events."""
    taken = Taken()
    taken.waiting.put(batch(1))
    taken.waiting.join(b"exec/")
    assert taken.told() == [(10, False)]
    assert taken.told() == []


def test_a_quiet_position_is_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1 s, 2 s, 4 s, ..., then every minute, as long as anybody listens, also after the run's end."""
    now = 1000.0
    monkeypatch.setattr("scope_agentd.bus.positions.time.monotonic", lambda: now)
    taken = Taken()
    taken.waiting.join(b"exec/")
    taken.waiting.put(batch(1))
    taken.waiting.put(end(emitted=17))
    times = []
    for second in range(200):
        now = 1000.0 + second
        if taken.told() == [(10, True)]:
            times.append(second)
    assert times == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    taken.waiting.leave(b"exec/")
    taken.waiting.join(b"exec/")
    now += 1000
    assert taken.told() == []


def test_many_ended_runs_are_forgotten() -> None:
    """The positions of the latest 64 ended runs are kept."""
    taken = Taken()
    taken.waiting.join(b"")
    for number in range(100):
        for one in (START, batch(1), end(emitted=10)):
            one.run_id = number.to_bytes(16)
            taken.waiting.put(one)
    assert len(taken.told()) == 64
