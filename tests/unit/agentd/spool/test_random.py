"""Random histories of the spool against a model: in the end each event is stored or lost, exactly once."""

import asyncio
import contextlib
import errno
import itertools
import os
import random
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, disk_bytes, drain

from scope_agentd.pipeline.spool import Outcome, Spool, Spooled, deferral, log
from scope_agentd.pipeline.spool.segment import Segment
from scope_proto.scope.v1.record_pb2 import Record

LIMIT, SEGMENT = 96 << 10, 3 << 10
STREAMS = ("cuda", "syscalls", "profile")


class Crash(BaseException):
    """Simulates kill -9: nothing in the spool catches it."""


class World:
    """One agent's spool, its runs, a server, and all actions on them."""

    def __init__(self, seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(seed)
        self.server = Server()
        self.runs: list[Run] = []  # all runs that put a record into the spool
        self.live: list[Run] = []
        self.taken: list[Spooled] = []
        self.crash_at: int | None = None
        self.full = False  # whether the disk has no space
        self._names = itertools.count(1)
        self._written: set[bytes] = set()  # runs whose start is on disk
        self._base, self._life, self._patch = directory, 0, monkeypatch
        self.directory = directory / "0"
        self.spool = Spool(self.directory, LIMIT, SEGMENT)
        self._patch_disk()

    def _patch_disk(self) -> None:
        write, remove, free = log._write, log.Log.remove, log.Log.free

        def maybe_crash() -> bool:
            if self.crash_at is None or threading.current_thread() is not threading.main_thread():
                return False
            self.crash_at -= 1
            return self.crash_at == 0

        def crashing_write(descriptor: int, data: bytes, offset: int) -> None:
            size = os.fstat(descriptor).st_size
            if maybe_crash():
                parts = [0, len(data)] if offset < size else range(len(data) + 1)  # in place, it is within one page
                os.pwrite(descriptor, data[: self.chance.choice(parts)], offset)
                raise Crash
            if self.full and offset + len(data) > size:
                os.pwrite(descriptor, data[: self.chance.randrange(len(data))], offset)
                raise OSError(errno.ENOSPC, "No space left on device")
            write(descriptor, data, offset)

        def crashing_remove(of: log.Log, segment: Segment) -> None:
            if maybe_crash():
                raise Crash
            remove(of, segment)

        self._patch.setattr(log, "_write", crashing_write)
        self._patch.setattr(log.Log, "remove", crashing_remove)
        little = [0, SEGMENT // 2]
        self._patch.setattr(log.Log, "free", lambda of: self.chance.choice(little) if self.full else free(of))

    # ---- actions

    def put(self) -> None:
        if not self.live or self.chance.random() < 0.003:
            run = Run(next(self._names), random.Random(self.chance.random()))
            self.runs.append(run)
            self.live.append(run)
            self._put(run.start())
            self.spool.once_written(run.run_id, partial(self._written.add, run.run_id))
            return
        run = self.chance.choice(self.live)
        draw = self.chance.random()
        if draw < 0.005:
            self.live.remove(run)
            self._put(run.end())
        elif draw < 0.1:
            self._put(run.accounts())
        else:
            self._put(run.batch(self.chance.choice(STREAMS), size=self.chance.randrange(400)))

    def _put(self, record: Record) -> None:
        with contextlib.suppress(Crash):
            self.spool.put(record)
            return
        self.restart(clean=False)

    def fill_or_free(self) -> None:
        """The disk becomes full, or has space again."""
        self.full = not self.full

    async def take(self) -> None:
        if self.spool.held().records > self.spool.held().deferred_records + len(self.taken):
            try:
                spooled = await asyncio.wait_for(self.spool.take(), 0.01 if self.spool.held().disk_full else 30)
            except TimeoutError:
                return  # what is left waits in memory for a disk that can write
            self.taken.append(spooled)
            if self.chance.random() < 0.7:
                self.server.receive(spooled.record, spooled.crc32)  # the answer may never arrive

    def answer(self) -> None:
        if not self.taken:
            return
        spooled = self.taken.pop(self.chance.randrange(len(self.taken)))
        if self.chance.random() < 0.2:
            self.spool.settle(spooled.position, Outcome.LATER)
        else:
            self.server.receive(spooled.record, spooled.crc32)
            self.spool.settle(spooled.position, Outcome.STORED)

    def rewind(self) -> None:
        self.spool.rewind()
        self.taken.clear()

    def restart(self, clean: bool) -> None:
        """Restarts the agent. Records that a full disk kept in memory are gone."""
        self.taken.clear()
        self.crash_at = None
        if clean:
            self.spool.close()
        self._life += 1
        with self.spool._lock:  # what the spool's thread writes from now on is not in the copy
            self._written = set(self._written)
            directory = shutil.copytree(self.directory, self._base / str(self._life))
        self.spool.close()
        shutil.rmtree(self.directory)
        self.directory = directory
        self.crash_at = self.chance.choice([None, None, 1, 2, 3])
        try:
            self.spool = Spool(directory, LIMIT, SEGMENT)
        except Crash:
            self.crash_at = None
            self.spool = Spool(directory, LIMIT, SEGMENT)
        self.crash_at = None
        self._written |= self.spool.open_runs.keys() | self.spool.runs()
        self.runs = [run for run in self.runs if run.run_id in self._written]
        self._close_left_runs()

    def _close_left_runs(self) -> None:
        by_id = {run.run_id: run for run in self.runs}
        for run_id, left in self.spool.open_runs.items():
            run = by_id[run_id]
            for stream, events in run.events.items():
                position = left.streams.get(stream)
                sequence, counted = position[:2] if position else (0, 0)
                assert sequence <= len(events)
                del events[sequence:]  # the rest was in memory; the kernel's counts have it
                assert counted == sum(events)
            self.spool.put(run.end())
        self.live.clear()

    async def finish(self) -> None:
        self.crash_at = None
        self.full = False
        for run in self.live:
            self.spool.put(run.end())
        self.spool.rewind()
        await drain(self.spool, self.server.receive)
        self.spool.close()
        for run in self.runs:
            self.server.check(run)
        run_ids = {run.run_id for run in self.runs}
        assert self.server.started == run_ids
        assert set(self.server.ended) >= run_ids


@pytest.mark.parametrize("seed", range(30))
async def test_all_that_was_emitted_is_stored_or_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each event is stored or lost once, in any order of puts, sends, answers, lost connections, crashes and full
    disks."""
    monkeypatch.setattr(deferral, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setattr(deferral, "LAST_PAUSE_S", 0.02)
    world = World(seed, tmp_path, monkeypatch)
    steps: list[tuple[float, Callable[[], object]]] = [
        (400, world.put),
        (world.chance.choice([10, 300, 500]), world.answer),
        (3, world.rewind),
        (0.5, lambda: world.restart(clean=True)),
        (0.5, lambda: world.restart(clean=False)),
        (world.chance.choice([0, 2, 100]), world.fill_or_free),
    ]
    weights, actions = zip(*steps, strict=True)
    takes = world.chance.choice([20, 300, 500])
    for _ in range(3000):
        try:
            if world.chance.random() < takes / 1000:
                await world.take()
            else:
                world.chance.choices(actions, weights)[0]()
        except Crash:  # while a settled segment was deleted
            world.restart(clean=False)
        if world.chance.random() < 0.003 and world.crash_at is None:
            world.crash_at = world.chance.randrange(1, 20)
        assert disk_bytes(world.directory) <= LIMIT
    await world.finish()
    assert "full of ends" not in caplog.text
