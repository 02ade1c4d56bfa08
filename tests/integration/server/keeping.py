"""Helpers: store rows of earlier days, and run retention and sweep step by step."""

import time
from datetime import UTC, datetime
from typing import Any

import psycopg
from tests.integration.server.records import BOOT_TO_UTC_NS, STORED, Line, Run, rows

from scope_server.store.retention import Disk, Retention, Sweep

DAY_NS = 24 * 3600 * 10**9
TODAY = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC).date()  # the day of rows made without an offset


def ago(days: int) -> int:
    """The offset from ktime to UTC for rows of so many days ago."""
    return BOOT_TO_UTC_NS - days * DAY_NS


async def store(line: Line, run: Run, days: int, sequence: int = 1, **given: Any) -> None:
    """Stores rows of so many days ago; 101 of them without `count`."""
    count = given.pop("count", 101)
    batch = run.batch(sequence, rows(count, **given), emitted=count * sequence, boot_to_utc_ns=ago(days))
    assert [answer.verdict for answer in await line.send(batch)] == [STORED]


def retain(connection: psycopg.Connection[Any], keep_days: int = 30, keep_bytes: int = 1 << 40) -> Retention:
    """Drops all days beyond the limits."""
    retention = Retention(Disk(0, keep_bytes), keep_days, lambda: TODAY)
    while retention.step(connection):
        pass
    return retention


def sweep(connection: psycopg.Connection[Any]) -> None:
    """Runs sweeps until none is due."""
    job = Sweep()
    end = time.monotonic() + 60
    while connection.execute("SELECT due > 0 FROM store.sweep").fetchone() == (True,):
        job.step(connection)
        assert time.monotonic() < end, "the sweep did not end"
