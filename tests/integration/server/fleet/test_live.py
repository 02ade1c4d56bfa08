"""What one server's writers commit is read by the other's live views."""

import asyncio
from contextlib import aclosing
from functools import partial

from tests.integration.server.fleet.waiting import until
from tests.integration.server.records import Run, lined, rows
from tests.integration.server.redis_server import RedisServer
from tests.integration.server.tables import TABLES, asked

from scope_server.fleet import Fleet
from scope_server.live.committed import Committed
from scope_server.live.hub import Hub
from scope_server.signals import Topic
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import Reader


async def test_rows_of_another_server(redis: RedisServer, two: tuple[Fleet, Fleet], database: str) -> None:
    """Redis tells of them; while it is away, the hub asks now and then."""
    (one, other), committed, run = two, Committed(), Run()
    other.signals.on(Topic.COMMITTED, committed.tell)
    told = partial(one.signals.tell, Topic.COMMITTED)
    async with lined(database, committed=told) as line, Database(database, 4, 20) as opened:
        await opened.prepare(TABLES)
        hub, seen = Hub(Reader(opened), committed), list[str]()

        async def look() -> None:
            async with aclosing(hub.watch(asked())) as pieces:
                async for piece in pieces:
                    seen.extend(piece.rows)

        async with asyncio.TaskGroup() as group:
            working = [group.create_task(hub.run())]
            await asyncio.sleep(0)
            working.append(group.create_task(look()))
            await until(lambda: any(question._begun.is_set() for question, _ in hub._asked.values()))
            await line.send(run.batch(1, rows(10)))
            await until(lambda: len(seen) == 10)
            redis.pause()
            try:
                await until(lambda: one.away() and other.away())
                await line.send(run.batch(2, rows(10, 10)))
                await until(lambda: len(seen) == 20)
            finally:
                redis.resume()
                for task in working:
                    task.cancel()
