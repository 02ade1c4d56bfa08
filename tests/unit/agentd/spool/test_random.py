"""Random lives of the spool against a model: at the end all that was emitted is stored or lost, exactly once."""

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, disk_bytes, drain

from scope_agentd.pipeline.spool import Outcome, Spool, Spooled, deferral, log
from scope_agentd.pipeline.spool.segment import Segment
from scope_proto.scope.v1.record_pb2 import Record

LIMIT, SEGMENT = 96 << 10, 3 << 10
STREAMS = ("cuda", "syscalls", "profile")


class Crash(BaseException):
    """Stands for kill -9: nothing in the spool catches it."""


class World:
    """One agent's spool, its runs, a server, and everything that can happen to them."""

    def __init__(self, seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(seed)
        self.server = Server()
        self.runs: list[Run] = []  # all that the spool has had a record of
        self.live: list[Run] = []
        self.taken: list[Spooled] = []
        self.crash_at: int | None = None
        self._base, self._life, self._patch = directory, 0, monkeypatch
        self.directory = directory / "0"
        self.spool = Spool(self.directory, LIMIT, SEGMENT)
        self._patch_crashes()

    def _patch_crashes(self) -> None:
        write, remove = log._write, log.Log.remove

        def maybe_crash() -> bool:
            if self.crash_at is None:
                return False
            self.crash_at -= 1
            return self.crash_at == 0

        def crashing_write(descriptor: int, data: bytes, offset: int) -> None:
            if maybe_crash():
                os.pwrite(descriptor, data[: self.chance.randrange(len(data) + 1)], offset)
                raise Crash
            write(descriptor, data, offset)

        def crashing_remove(of: log.Log, segment: Segment) -> None:
            if maybe_crash():
                raise Crash
            remove(of, segment)

        self._patch.setattr(log, "_write", crashing_write)
        self._patch.setattr(log.Log, "remove", crashing_remove)

    # ---- what happens

    def put(self) -> None:
        if not self.live or self.chance.random() < 0.003:
            run = Run(len(self.runs) + 1, random.Random(self.chance.random()))
            self.runs.append(run)
            self.live.append(run)
            self._put(run.start())
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
        try:
            self.spool.put(record)
        except Crash:
            known = self.restart(clean=False)
            if record.HasField("start") and record.run_id not in known:
                self.runs = [run for run in self.runs if run.run_id != record.run_id]

    async def take(self) -> None:
        if self.spool.held().records > self.spool.held().deferred_records + len(self.taken):
            spooled = await asyncio.wait_for(self.spool.take(), 30)
            self.taken.append(spooled)
            if self.chance.random() < 0.7:
                self.server.receive(spooled.record, spooled.crc32)  # its answer may never come

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

    def restart(self, clean: bool) -> set[bytes]:
        """Returns the runs that the new life knows to be open."""
        self.taken.clear()
        self.crash_at = None
        if clean:
            self.spool.close()
        self._life += 1
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
        known = set(self.spool.open_runs)
        self._close_left_runs()
        return known

    def _close_left_runs(self) -> None:
        for run in self.live:
            left = self.spool.open_runs.get(run.run_id)
            if left is None:
                continue  # the crash was in the put of its start or its end
            for stream, events in run.events.items():
                position = left.streams.get(stream)
                sequence, counted = position[:2] if position else (0, 0)
                assert len(events) - 1 <= sequence <= len(events)
                del events[sequence:]  # the crash was in the put of this one
                assert counted == sum(events)
            self.spool.put(run.end())
        by_id = {run.run_id: run for run in self.runs}
        for run_id in self.spool.open_runs.keys() - {run.run_id for run in self.live}:
            self.spool.put(by_id[run_id].end())
        self.live.clear()

    async def finish(self) -> None:
        self.crash_at = None
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
    """Whatever the order of puts, sends, answers, broken connections, crashes, restarts and full spools."""
    monkeypatch.setattr(deferral, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setattr(deferral, "LAST_PAUSE_S", 0.02)
    world = World(seed, tmp_path, monkeypatch)
    steps: list[tuple[float, Callable[[], object]]] = [
        (400, world.put),
        (world.chance.choice([10, 300, 500]), world.answer),
        (3, world.rewind),
        (0.5, lambda: world.restart(clean=True)),
        (0.5, lambda: world.restart(clean=False)),
    ]
    weights, actions = zip(*steps, strict=True)
    takes = world.chance.choice([20, 300, 500])
    for _ in range(3000):
        try:
            if world.chance.random() < takes / 1000:
                await world.take()
            else:
                world.chance.choices(actions, weights)[0]()
        except Crash:  # while something settled was deleted
            world.restart(clean=False)
        if world.chance.random() < 0.003 and world.crash_at is None:
            world.crash_at = world.chance.randrange(1, 20)
        assert disk_bytes(world.directory) <= LIMIT
    await world.finish()
    assert "given up" not in caplog.text
