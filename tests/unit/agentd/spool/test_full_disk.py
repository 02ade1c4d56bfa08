"""A disk that takes nothing: batches become a Gap, all else waits in memory, and nothing is raised."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain

from scope_agentd.pipeline.spool import Outcome, Spool

DISK = 256 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Takes all room on the disk but some."""
    file = disk / "others"
    with file.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(4096))
    if left:
        os.truncate(file, file.stat().st_size - left)
    return file


async def test_others_fill_the_disk(small_disk: Path) -> None:
    """What is emitted meanwhile is in one Gap for each stream; starts, ends and the latest books arrive afterwards."""
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
    """The spool makes room by dropping its own oldest, and holds what fits."""
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


async def test_settled_records_make_room(small_disk: Path) -> None:
    """With no room left anywhere, the room of what is settled is used again."""
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
    """The agent starts, records, and tells what it had to give up once there is room."""
    (small_disk / "spool").mkdir()
    (small_disk / "spool" / "lock").touch()
    others = fill(small_disk)
    with contextlib.closing(Spool(small_disk / "spool", 1 << 20)) as spool:
        run, server = Run(1), Server()
        spool.put(run.start())
        spool.put(run.batch())
        assert spool.held().disk_full
        others.unlink()
        await drain(spool, server.receive)  # the thread that syncs writes what waits
    server.check(run)
    assert server.started == {run.run_id}


async def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """Another error than a full disk: nothing is dropped for room, and all goes on when it is over."""
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
    """A write that stops in the middle is undone: the next record lies where it began."""
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
    """What lies on the full disk can be sent and settled, which makes room."""
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
