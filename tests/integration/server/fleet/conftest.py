"""Fixtures: a real Redis for the tests of a module, and the parts that two servers share, in memory or in Redis."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.server.fleet.waiting import until
from tests.integration.server.redis_server import RedisServer

from scope_server.fleet import Fleet, alone
from scope_server.redis.fleet import Records, joined


@pytest.fixture(scope="module")
def redis_of_module() -> Iterator[RedisServer]:
    """One Redis, in a folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder, RedisServer(Path(folder)) as started:
        yield started


@pytest.fixture
def redis(redis_of_module: RedisServer) -> RedisServer:
    """A Redis without data, for one test."""
    redis_of_module.flush()
    return redis_of_module


@pytest.fixture(params=["memory", "redis"])
async def pair(request: pytest.FixtureRequest, redis: RedisServer) -> AsyncIterator[tuple[Fleet, Fleet]]:
    """What two servers share. In memory, it is one server: whatever holds of two holds of it."""
    if request.param == "memory":
        one = alone("one")
        yield one, one
    else:
        async with joined_twice(redis) as both:
            yield both


@pytest.fixture
async def two(redis: RedisServer) -> AsyncIterator[tuple[Fleet, Fleet]]:
    """What two servers share in Redis."""
    async with joined_twice(redis) as both:
        yield both


@asynccontextmanager
async def joined_twice(redis: RedisServer) -> AsyncIterator[tuple[Fleet, Fleet]]:
    """Two servers of a fleet, while inside."""
    both = joined("one", redis.at, Records()), joined("other", redis.at, Records())
    # Not `background`: a fixture ends in another task than it began in.
    work = [asyncio.create_task(run()) for fleet in both for run in fleet.work.values()]
    try:
        await until(lambda: any(one.done() for one in work) or not any(fleet.away() for fleet in both))
        yield both
    finally:
        for one in work:
            one.cancel()
        ended = await asyncio.gather(*work, return_exceptions=True)
        for fleet in both:
            await fleet.close()
        assert [error for error in ended if not isinstance(error, asyncio.CancelledError)] == []
