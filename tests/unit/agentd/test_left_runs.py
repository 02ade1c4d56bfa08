"""The next agent closes a killed agent's runs, from the kernel's counters, the last report and the spool."""

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scope_agentd.left_runs import close_left_runs
from scope_agentd.pins import LeftRun, Pins
from scope_agentd.pipeline.spool import Spool
from scope_agentd.pipeline.spool.syncer import SYNC_EVERY_S
from scope_bpf.capture.account import Account
from scope_proto.scope.v1 import record_pb2, task_pb2

RUN, TASK = bytes(range(16)), bytes(16)


class PinsOf(Pins):
    """Replaces the files and the BPF file system: left() returns the given runs."""

    def __init__(self, *left: LeftRun) -> None:
        self._left = list(left)
        self.released: list[Any] = []

    def left(self) -> list[LeftRun]:
        return self._left

    def release(self, run_id: bytes) -> None:
        self.released.append(run_id)


def start() -> record_pb2.Record:
    return record_pb2.Record(run_id=RUN, task_id=TASK, start=record_pb2.RunStart())


def batch(sequence: int, before: int, count: int, emitted: int, **lost: int) -> record_pb2.Record:
    account = record_pb2.Account(emitted=emitted)
    for reason, number in lost.items():
        account.lost.add(place="ring", reason=reason, count=number)
    told = record_pb2.Batch(
        stream="syscall", sequence=sequence, event_count=count, events_before=before, account=account
    )
    return record_pb2.Record(run_id=RUN, task_id=TASK, batch=told)


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@contextlib.contextmanager
def reopened(folder: Path, *records: record_pb2.Record) -> Iterator[Spool]:
    """The spool as the next agent opens it, after an earlier agent put these records."""
    with contextlib.closing(Spool(folder)) as spool:
        for record in records:
            spool.put(record)
    with contextlib.closing(Spool(folder)) as spool:
        yield spool


async def ends_of(spool: Spool) -> list[record_pb2.Record]:
    """The end records in the spool."""
    found = []
    for _ in range(spool.held().records):
        record = record_pb2.Record.FromString((await spool.take()).record)
        if record.HasField("end"):
            found.append(record)
    return found


def lost_of(end: record_pb2.RunEnd, stream: str) -> dict[str, int]:
    return {f"{loss.place}/{loss.reason}": loss.count for loss in end.accounts.streams[stream].lost}


async def test_what_the_kernel_counted_and_nobody_has_is_lost(tmp_path: Path) -> None:
    """Events counted by the kernel that are in no batch become agent/killed: emitted = lost + sequenced, exactly."""
    left = LeftRun(RUN, start(), True, {"syscall": Account(1009, {"ring_full": 7}, incomplete=3)})
    pins = PinsOf(left)
    with reopened(tmp_path, start(), batch(1, 0, 100, 120), batch(2, 100, 50, 200, ring_full=5)) as spool:
        close_left_runs(spool, pins)
        (record,) = await ends_of(spool)
    end = record.end
    assert (record.run_id, record.task_id, end.end) == (RUN, TASK, task_pb2.TASK_END_KILLED)
    assert dict(end.last_sequences) == {"syscall": 2}
    account = end.accounts.streams["syscall"]
    assert (account.emitted, account.incomplete) == (1009, 3)
    assert lost_of(end, "syscall") == {"ring/ring_full": 7, "agent/killed": 1009 - 7 - 150}
    assert pins.released == [RUN]


async def test_without_the_kernels_books_they_close_with_what_was_told(tmp_path: Path) -> None:
    """Without the kernel's counters, as after a reboot, the last reported account counts."""
    with reopened(tmp_path, start(), batch(1, 0, 100, 120)) as spool:
        close_left_runs(spool, PinsOf())
        (record,) = await ends_of(spool)
    assert record.end.accounts.streams["syscall"].emitted == 120
    assert lost_of(record.end, "syscall") == {"agent/killed": 20}


async def test_a_run_that_the_spool_has_not_seen_is_told_whole(tmp_path: Path) -> None:
    """After a kill between attach and the first record, the next agent puts both the run's start and its end."""
    left = LeftRun(RUN, start(), False, {"syscall": Account(31)})
    with reopened(tmp_path) as spool:
        close_left_runs(spool, PinsOf(left))
        kinds = []
        for _ in range(spool.held().records):
            kinds.append(record_pb2.Record.FromString((await spool.take()).record).WhichOneof("content"))
    assert kinds == ["start", "end"]


async def test_the_pins_stay_until_the_end_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the end waits in memory on a full disk, the pins stay: after another kill the next agent needs them."""
    pins = PinsOf(LeftRun(RUN, start(), True, {"syscall": Account(1009)}))
    with reopened(tmp_path, start(), batch(1, 0, 100, 120)) as spool:
        with monkeypatch.context() as disk:
            disk.setattr(os, "pwrite", no_space)
            close_left_runs(spool, pins)
            await asyncio.sleep(2 * SYNC_EVERY_S)
            assert pins.released == []
        await asyncio.sleep(2 * SYNC_EVERY_S)
        assert pins.released == [RUN]
        (record,) = await ends_of(spool)
    assert record.end.accounts.streams["syscall"].emitted == 1009


async def test_a_start_that_was_not_written_is_spooled_by_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the start waits in memory. If the agent is killed then, the run's file still has the start."""
    pins = Pins(tmp_path, "an-installation", bpf_fs=tmp_path / "none")
    pins.prepare(RUN, start(), ["syscall"])
    spool = Spool(tmp_path / "spool")
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", no_space)
        spool.put(start())
        spool.once_written(RUN, partial(pins.recording, RUN))
        spool.close()  # as a kill: nothing can be written
    with contextlib.closing(Spool(tmp_path / "spool")) as spool:
        close_left_runs(spool, pins)
        waiting = [record_pb2.Record.FromString((await spool.take()).record) for _ in range(2)]
    assert [record.WhichOneof("content") for record in waiting] == ["start", "end"]
    assert pins.left() == []


@pytest.mark.parametrize("lives", [2, 3])
async def test_a_run_is_closed_once(tmp_path: Path, lives: int) -> None:
    """A run that was closed, but whose pins were not released, is not closed or booked again."""
    left = LeftRun(RUN, start(), True, {"syscall": Account(1009)})
    ends = []
    with reopened(tmp_path, start(), batch(1, 0, 100, 120)):
        pass
    for _ in range(lives):
        with contextlib.closing(Spool(tmp_path)) as spool:
            close_left_runs(spool, PinsOf(left))
            ends = await ends_of(spool)
    assert len(ends) == 1
    assert lost_of(ends[0].end, "syscall") == {"agent/killed": 909}


async def test_a_run_that_ended_in_order_is_left_alone(tmp_path: Path) -> None:
    """A run that has an end record gets no second one."""
    ended = record_pb2.Record(run_id=RUN, task_id=TASK, end=record_pb2.RunEnd(end=task_pb2.TASK_END_REQUEST))
    with reopened(tmp_path, start(), batch(1, 0, 100, 100), ended) as spool:
        close_left_runs(spool, PinsOf())
        (only,) = await ends_of(spool)
    assert only.end.end == task_pb2.TASK_END_REQUEST


async def test_what_the_filter_left_out_is_not_lost(tmp_path: Path) -> None:
    """Rows that the killed agent had told as left out are none that the kill lost."""
    told = batch(1, 0, 100, 120)
    told.batch.account.left_out = 17
    with reopened(tmp_path, start(), told) as spool:
        close_left_runs(spool, PinsOf(LeftRun(RUN, start(), True, {"syscall": Account(1009)})))
        (record,) = await ends_of(spool)
    assert lost_of(record.end, "syscall") == {"agent/killed": 1009 - 100 - 17}
    assert record.end.accounts.streams["syscall"].left_out == 17
