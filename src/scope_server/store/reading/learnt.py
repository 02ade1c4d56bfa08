"""What the other servers of the database learn from their agents."""

import asyncio
from contextlib import suppress

from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Database
from scope_server.store.schema.descriptions import add
from scope_server.store.schema.tables import Tables

EVERY_S = 10.0


async def follow(database: Database, tables: Tables) -> None:
    """Adds streams and columns that other servers have made tables for, so that queries know them; until cancelled."""
    last = 0
    while True:
        with suppress(StoreUnavailable):
            for row in await database.fetch("descriptions", {"after": last}):
                add(tables, row["description"])
                last = row["id"]
        await asyncio.sleep(EVERY_S)
