"""The thread that syncs records to disk: every watcher learns that it failed."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain

from scope_agentd.errors import SpoolFailed
from scope_agentd.pipeline.spool import Spool, syncer
from scope_agentd.pipeline.spool.log import Log


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncer, "SYNC_EVERY_S", 0.01)


async def test_its_end_is_an_error_of_whoever_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error reaches present and later watchers with its cause; records are still written."""

    def fails(_: Log) -> list[int]:
        raise RuntimeError("made up")

    run, server = Run(1), Server()
    with contextlib.closing(Spool(tmp_path, 1 << 20)) as spool:
        watching = asyncio.create_task(spool.watch())
        await asyncio.sleep(0.1)
        assert not watching.done()
        with monkeypatch.context() as patched:
            patched.setattr(Log, "to_sync", fails)
            for watch in (watching, spool.watch()):
                with pytest.raises(SpoolFailed, match="start the agent again") as failed:
                    await asyncio.wait_for(watch, 30)
                assert "made up" in str(failed.value.__cause__)
        spool.put(run.batch())
        await drain(spool, server.receive)
    server.check(run)


async def test_a_watch_ends_with_the_spool(tmp_path: Path) -> None:
    """A watch ends when the spool closes; a cancelled watch does not affect the others."""
    with contextlib.closing(Spool(tmp_path, 1 << 20)) as spool:
        watches = [asyncio.create_task(spool.watch()) for _ in range(2)]
        await asyncio.sleep(0)
        watches[0].cancel()
        spool.put(Run(1).batch())
    await asyncio.wait_for(watches[1], 30)
    assert watches[0].cancelled()
