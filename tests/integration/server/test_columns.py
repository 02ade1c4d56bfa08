"""Rows as columns: whose reading ends with the server, also where nobody waits for it any more."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.integration.server.records import Line, Run, rows
from tests.integration.server.running import until
from tests.integration.server.tables import TABLES

from scope_server.store.reading import columns
from scope_server.store.reading.columns import Columns
from scope_server.store.reading.database import Database
from scope_server.store.reading.selection import Selection

_READERS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'scope reader' AND query LIKE '%pg_sleep%'"


async def test_the_end_leaves_no_reading(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for rows has gone, and the database still looks for them: at the end, it is told to stop."""
    await line.send(Run().batch(1, rows(10)))
    ((first, last),) = line.query("SELECT min(time), max(time) FROM scope.syscall")
    wanted = Selection(TABLES["syscall"], since=first, until=last + timedelta(seconds=1))
    monkeypatch.setattr(columns, "_statement", lambda *_: "SELECT pg_sleep(600)")

    async def readers() -> list[Any]:
        with psycopg.connect(line.conninfo, autocommit=True) as connection:
            return connection.execute(_READERS).fetchall()

    async with Database(line.conninfo, 2, 60) as database, Columns(database, line.conninfo, 300) as read:
        await database.prepare(TABLES)
        waiting = asyncio.ensure_future(anext(read.batches(wanted)))
        await until(readers, bool)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
    assert await readers() == []
