"""On a full disk, batches become a Gap, all other records wait in memory, and no error is raised."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain, nowhere

from scope_agentd.pipeline.spool import Outcome, Spool, log
from scope_agentd.pipeline.spool.segment import Segment

DISK = 256 << 10
STREAMS = ("cuda", "syscalls", "profile", "sched", "open")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Fills the disk, except for `left` bytes; also what has become free since the last time."""
    file = disk / "others"
    with file.open("ab", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(4096))
    if left:
        os.truncate(file, file.stat().st_size - left)
    return file


async def test_others_fill_the_disk(small_disk: Path) -> None:
    """Batches put on a full disk become one Gap per run and stream; starts and ends arrive when there is room."""
    with contextlib.closing(Spool(small_disk / "spool", 1 << 20, 16 << 10)) as spool:
        before, meanwhile, server = Run(1), Run(2), Server()
        spool.put(before.start())
        for _ in range(5):
            spool.put(before.batch())
        others = fill(small_disk)
        for stream in ("cuda", "syscalls"):
            for _ in range(200):
                spool.put(before.batch(stream))
        assert spool.held().disk_full
        spool.put(meanwhile.start())
        for _ in range(50):
            spool.put(meanwhile.batch())
            spool.put(meanwhile.accounts())
        spool.put(meanwhile.end())
        others.unlink()
        for _ in range(5):
            spool.put(before.batch())
        assert not spool.held().disk_full
        spool.put(before.end())
        await drain(spool, server.receive)
    for run in (before, meanwhile):
        server.check(run)
    assert server.started == set(server.ended) == {before.run_id, meanwhile.run_id}
    assert {gap.gap.reason for gap in server.gaps} == {"disk_full"}
    assert len(server.gaps) == 3
    assert all(len(gap.gap.spans) == 1 for gap in server.gaps)


async def test_a_limit_larger_than_the_disk(small_disk: Path) -> None:
    """The spool drops its own oldest batches to make room, and keeps as many as fit."""
    with contextlib.closing(Spool(small_disk / "spool", 10 << 20, 16 << 10)) as spool:
        run, server = Run(1), Server()
        spool.put(run.start())
        for _ in range(5000):
            spool.put(run.batch(size=200))
        spool.put(run.end())
        assert spool.held().bytes > DISK // 2
        await drain(spool, server.receive)
    server.check(run)
    assert server.started == set(server.ended) == {run.run_id}
    assert len(server.stored[run.run_id, "cuda"]) * 200 > DISK // 2


async def test_a_kill_on_a_full_disk(
    small_disk: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the agent is killed on a full disk, each batch up to the last position on disk is there, or in a Gap.

    Other programs use the space of a deleted segment before the spool can.
    """
    run, server, remove = Run(1), Server(), log.Log.remove

    def remove_and_fill(of: log.Log, segment: Segment) -> None:
        remove(of, segment)
        fill(small_disk)

    monkeypatch.setattr(log.Log, "remove", remove_and_fill)
    with contextlib.closing(Spool(small_disk / "spool", 1 << 20, 16 << 10)) as spool:
        spool.put(run.start())
        for at in range(500):
            spool.put(run.batch(STREAMS[at % len(STREAMS)]))
        fill(small_disk)
        for at in range(200):
            spool.put(run.batch(STREAMS[at % len(STREAMS)]))
        killed = shutil.copytree(small_disk / "spool", tmp_path_factory.mktemp("killed") / "spool")
    with contextlib.closing(Spool(killed)) as spool:
        for stream, (sequence, events, *_) in spool.open_runs[run.run_id].streams.items():
            del run.events[stream][sequence:]  # the kernel's counts have them
            assert events == sum(run.events[stream])
        await drain(spool, server.receive)
    server.check(run)


async def test_a_run_stays_open_without_room_for_its_end(
    small_disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An agent that starts on a full disk keeps the segment with the runs' positions until it can write new ones."""
    run = Run(1)
    with contextlib.closing(Spool(small_disk / "spool", 1 << 20)) as spool:
        spool.put(run.start())
        spool.put(run.batch())
        killed = shutil.copytree(small_disk / "spool", small_disk / "killed")
    fill(small_disk)
    with contextlib.closing(Spool(killed, 1 << 20)) as spool:
        await drain(spool, nowhere)
        again = shutil.copytree(killed, tmp_path_factory.mktemp("again") / "spool")
    with contextlib.closing(Spool(again, 1 << 20)) as spool:
        assert spool.open_runs[run.run_id].streams["cuda"].sequence == 1


async def test_settled_records_make_room(small_disk: Path) -> None:
    """On a full disk, the space of settled records is reused."""
    with contextlib.closing(Spool(small_disk / "spool", 10 << 20)) as spool:
        run, server = Run(1), Server()
        for _ in range(20):
            spool.put(run.batch())
        await drain(spool, server.receive)
        fill(small_disk)
        for _ in range(200):
            spool.put(run.batch())
            await drain(spool, server.receive)
    server.check(run)
    assert len(server.stored[run.run_id, "cuda"]) > 100


async def test_a_start_on_a_full_disk(small_disk: Path) -> None:
    """A spool can start on a full disk; once there is room, each record is delivered or reported in a Gap."""
    (small_disk / "spool").mkdir()
    (small_disk / "spool" / "lock").touch()
    others = fill(small_disk)
    with contextlib.closing(Spool(small_disk / "spool", 1 << 20)) as spool:
        run, server = Run(1), Server()
        spool.put(run.start())
        spool.put(run.batch())
        assert spool.held().disk_full
        others.unlink()
        await drain(spool, server.receive)  # the syncing thread writes the waiting records
    server.check(run)
    assert server.started == {run.run_id}


async def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """On another write error, no old batch is dropped to make room; afterwards writing goes on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with contextlib.closing(Spool(tmp_path / "spool", 1 << 20)) as spool:
        run, server = Run(1), Server()
        for _ in range(5):
            spool.put(run.batch())
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
        try:
            for _ in range(50):
                spool.put(run.batch())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert spool.held().disk_full
        spool.put(run.batch())
        await drain(spool, server.receive)
    server.check(run)
    assert len(server.stored[run.run_id, "cuda"]) >= 6


async def test_a_torn_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that stops halfway is undone: its batch is lost, the batches before and after are stored."""
    written = os.pwrite
    with contextlib.closing(Spool(tmp_path / "spool", 1 << 20)) as spool:
        run, server = Run(1), Server()
        spool.put(run.batch())

        def half(descriptor: int, data: bytes, offset: int) -> int:
            if len(data) < 100:
                raise OSError(28, "No space left on device")
            return written(descriptor, data[: len(data) // 2], offset)

        monkeypatch.setattr(os, "pwrite", half)
        spool.put(run.batch())
        monkeypatch.undo()
        spool.put(run.batch())
        await drain(spool, server.receive)
    server.check(run)
    assert sorted(server.stored[run.run_id, "cuda"]) == [1, 3]


async def test_answers_go_on_while_the_disk_is_full(small_disk: Path) -> None:
    """Records on a full disk can be sent and settled, which makes room."""
    with contextlib.closing(Spool(small_disk / "spool", 10 << 20, 16 << 10)) as spool:
        run, server = Run(1), Server()
        for _ in range(100):
            spool.put(run.batch())
        fill(small_disk)
        for _ in range(100):
            spooled = await spool.take()
            server.receive(spooled.record, spooled.crc32)
            spool.settle(spooled.position, Outcome.STORED)
            spool.put(run.batch())
        await drain(spool, server.receive)
    server.check(run)
