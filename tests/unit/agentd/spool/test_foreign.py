"""Entries of others in the spool's directory are left alone, and a hole in a segment takes no room."""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain

from scope_agentd.errors import SpoolUnusable
from scope_agentd.pipeline.spool import Spool
from scope_agentd.pipeline.spool.layout import segment_name

LIMIT, SEGMENT = 1 << 20, 4 << 10


@pytest.fixture
def left(tmp_path: Path) -> tuple[Run, Path]:
    """A run, and the spool with its 100 batches as a killed agent left it."""
    run = Run(1)
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        spool.put(run.start())
        for _ in range(100):
            spool.put(run.batch())
        return run, shutil.copytree(tmp_path / "spool", tmp_path / "left")


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


async def delivered(run: Run, directory: Path) -> int:
    """Opens the spool, puts more batches, and delivers all; returns the number of stored batches."""
    server = Server()
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        for _ in range(100):
            spool.put(run.batch())
        await drain(spool, server.receive)
        assert spool.held().dropped_records == 0
    server.check(run)
    return len(server.stored[run.run_id, "cuda"])


@pytest.mark.parametrize("after", [-20, 1, 2])
async def test_a_symbolic_link_is_not_followed(
    left: tuple[Run, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, after: int
) -> None:
    """A link with a segment's name stays, with the file that it points to; the log names it."""
    run, directory = left
    precious = tmp_path / "precious"
    precious.write_bytes(b"SCOPESEG" + bytes(10_000))
    link = directory / segment_name(max(0, int(segments(directory)[-1].stem) + after))
    link.symlink_to(precious)
    assert await delivered(run, directory) == 200
    assert precious.stat().st_size == 10_008
    assert link.readlink() == precious
    assert str(link) in [getattr(record, "file", "") for record in caplog.records]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, Path.touch])
async def test_what_is_not_a_segment_is_left_alone(left: tuple[Run, Path], make: Callable[[Path], None]) -> None:
    """A pipe, a folder or a file with another name stops nothing and stays."""
    run, directory = left
    names = ["notes.segment", "7.segment", "٣.segment"]
    if make is not Path.touch:
        names.append(segment_name(int(segments(directory)[-1].stem) + 1))
    for name in names:
        make(directory / name)
    assert await delivered(run, directory) == 200
    assert all((directory / name).exists() for name in names)


async def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    """The lock is not made through a symbolic link; the error names the directory."""
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpoolUnusable, match=str(tmp_path / "spool")):
        Spool(tmp_path / "spool")
    assert not (tmp_path / "elsewhere").exists()


async def test_a_segment_replaced_by_a_link_counts_as_deleted(tmp_path: Path) -> None:
    """A segment that somebody replaces while the agent runs is not written through the link."""
    precious = tmp_path / "precious"
    precious.write_bytes(bytes(10_000))
    run, server = Run(1), Server()
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        for _ in range(100):
            spool.put(run.batch())
        for file in segments(tmp_path / "spool")[1:-1]:
            file.unlink()
            file.symlink_to(precious)
        await drain(spool, server.receive)
    assert precious.read_bytes() == bytes(10_000)


@pytest.mark.parametrize("which", [1, -1])
async def test_a_hole_takes_no_room(left: tuple[Run, Path], which: int) -> None:
    """A segment that claims 4 GiB, but has the blocks of its records, drops nothing and is not read as a whole."""
    run, directory = left
    os.truncate(segments(directory)[which], 1 << 32)
    assert await delivered(run, directory) == 200
