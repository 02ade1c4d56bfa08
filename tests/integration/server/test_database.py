"""The pool of connections for queries."""

import asyncio

import pytest
from tests.integration.server.tables import TABLES

from scope_server.store.reading.database import Database


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancellation_is_never_lost(database: str, steps: int) -> None:
    """Who waits for a connection and is cancelled ends, also if he gets the connection in the same moment, as many
    steps of the event loop before."""
    async with Database(database, 2, 30) as pool:
        await pool.prepare(TABLES)

        async def wait() -> None:
            async with pool.connection():
                await asyncio.sleep(60)

        async with pool.connection():
            async with pool.connection():
                waiting = asyncio.create_task(wait())
                await asyncio.sleep(0.1)
            for _ in range(steps):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait((waiting,), timeout=5)
            assert waiting.cancelled()
        async with asyncio.timeout(30), pool.connection(), pool.connection():
            pass  # none is kept
