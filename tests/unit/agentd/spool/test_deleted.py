"""If somebody deletes the spool's directory while the agent runs, it is made anew and every event is accounted for."""

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain

from scope_agentd.errors import SpoolFailed
from scope_agentd.pipeline.spool import Spool, syncer
from scope_agentd.pipeline.spool.home import Home

LIMIT, SEGMENT = 1 << 20, 4 << 10


@pytest.fixture(autouse=True)
def watches_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spool looks after its directory at each round of its thread."""
    monkeypatch.setattr(syncer, "SYNC_EVERY_S", 0.01)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def between_rounds(spool: Spool) -> threading.Lock:
    """Entered, keeps the spool from looking after its directory."""
    return spool._lock


def moved(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))


def removed_with_parents(directory: Path) -> None:
    shutil.rmtree(directory.parent)


@pytest.mark.parametrize("delete", [shutil.rmtree, moved, removed_with_parents])
async def test_the_directory_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, delete: Callable[[Path], None]
) -> None:
    """The newest segment's records are kept; those of the others are one Gap. The next agent finds the rest."""
    directory, run, server = tmp_path / "state" / "spool", Run(1), Server()
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        spool.put(run.start())
        for stream in ("cuda", "syscalls"):
            for _ in range(50):
                spool.put(run.batch(stream))
        with between_rounds(spool):
            delete(directory)
        await until(lambda: list(directory.glob("*.segment")))
        spool.put(run.batch())
    assert "was deleted by somebody else" in caplog.text
    assert directory.stat().st_mode & 0o777 == directory.parent.stat().st_mode & 0o777 == 0o700
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        spool.put(run.end())
        await drain(spool, server.receive)
    server.check(run)
    assert server.lost[run.run_id, "cuda"]
    assert len(server.stored[run.run_id, "syscalls"]) > 0
    assert server.ended


async def test_what_was_sent_is_not_lost(tmp_path: Path) -> None:
    """An agent whose server takes everything loses nothing, whatever was settled when the directory was deleted."""
    directory, run, server = tmp_path / "spool", Run(1), Server()
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        for _ in range(10):
            spool.put(run.batch())
        await drain(spool, server.receive)
        spool.put(run.batch())
        with between_rounds(spool):
            shutil.rmtree(directory)
        await until(lambda: list(directory.glob("*.segment")))
        spool.put(run.batch())
        await drain(spool, server.receive)
    server.check(run)
    assert not server.gaps


async def test_a_directory_that_cannot_be_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so; what does not fit is booked as lost; when the directory can be made, all goes on."""
    directory, run, server = tmp_path / "spool", Run(1), Server()
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        spool.put(run.batch())
        with between_rounds(spool):
            shutil.rmtree(directory)
            directory.touch()
        await until(lambda: "cannot be made anew" in caplog.text)
        for _ in range(50):
            spool.put(run.batch())
        assert spool.held().disk_full
        directory.unlink()
        await until(lambda: not spool.held().disk_full)
        await drain(spool, server.receive)
    server.check(run)
    assert {gap.gap.reason for gap in server.gaps} == {"disk_full"}


async def test_another_agent_has_taken_the_directory(tmp_path: Path) -> None:
    """Of two agents that use one directory one after the other, the first ends with an error: it can spool nothing."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        fresh = Home(tmp_path / "fresh")
        with between_rounds(spool):
            shutil.rmtree(tmp_path / "spool")
            (tmp_path / "fresh").rename(tmp_path / "spool")
        with contextlib.closing(fresh), pytest.raises(SpoolFailed):
            await spool.watch()
