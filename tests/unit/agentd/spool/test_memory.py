"""Memory does not grow with the number of spooled records."""

import contextlib
import tracemalloc
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run

from scope_agentd.pipeline.spool import Outcome, Spool, deferral

RECORDS = 60_000


async def test_sixty_thousand_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All records on disk together take less than 64 KiB, and each deferred record less than ten bytes more."""
    monkeypatch.setattr(deferral, "FIRST_PAUSE_S", 1000.0)
    monkeypatch.setattr(deferral, "LAST_PAUSE_S", 1000.0)
    record = Run(1).batch(size=1)
    with contextlib.closing(Spool(tmp_path / "spool", 1 << 30, 1 << 20)) as spool:
        spool.put(record)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for sequence in range(2, RECORDS + 1):
                record.batch.sequence = sequence
                spool.put(record)
            put, most_put = tracemalloc.get_traced_memory()
            for _ in range(RECORDS):
                spool.settle((await spool.take()).position, Outcome.LATER)
            deferred, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert spool.held().deferred_records == RECORDS
        assert spool.held().bytes > 50 * RECORDS
    assert put - before < 1 << 16
    assert most_put - before < 1 << 20
    assert deferred - put < 10 * RECORDS
