"""What takes many rows: flame graphs, comparisons, the slowest rows. As the API answers, without HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from scope_catalogue.where import read_filter
from scope_server.store.answers.comparison import comparison
from scope_server.store.answers.side import Side
from scope_server.store.answers.slowest import shown_as, slowest
from scope_server.store.answers.stacks import Added, add_up, drawn
from scope_server.store.reading.database import Database
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.flames.arrow import columns, ipc
from scope_views.flames.stacks import Stacks

_DAYS = 30
_LAUNCHES, _CALLS = "cuda_launch", "syscall"
_SLOW = "duration_ns > 20us"
_SLOWEST = 10


def questions(
    database: Database, tables: Mapping[str, StreamTable], end: datetime
) -> dict[str, tuple[Callable[[], Awaitable[object]], float]]:
    """Questions with the time, in ms, that they may take. All are about every stored row.

    Args:
        end: after the last row.
    """
    window = end - timedelta(days=_DAYS), end

    def rows(stream: str, where: str = "") -> Selection:
        table = tables[stream]
        return Selection(table, read_filter(where, table.types) if where else None, *window)

    async def flame_graph() -> object:
        wanted = rows(_LAUNCHES)
        how = drawn(wanted.table, None, None)
        async with database.snapshot() as connection:
            added = await add_up(connection, wanted, how)
        return await asyncio.to_thread(_columns, added, how.unit)

    async def compared() -> object:
        inside = rows(_CALLS, _SLOW)
        outside = Side(inside.table, None, *window, besides=inside)
        async with database.snapshot() as connection:
            return await comparison(connection, inside, outside, tables.values())

    async def the_slowest() -> object:
        wanted = rows(_CALLS)
        async with database.snapshot() as connection:
            return await slowest(connection, wanted, shown_as(wanted.table), _SLOWEST)

    return {
        "flame graph of launches": (flame_graph, 1000),
        "slow calls compared with the others": (compared, 2000),
        "the slowest calls": (the_slowest, 2000),
    }


def _columns(added: Added, unit: str) -> bytes:
    stacks = Stacks()
    added.add_to(stacks)
    return ipc(columns(stacks.tree("", unit), {}))
