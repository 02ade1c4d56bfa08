"""Fixtures: a real Redis for the tests of a module, and the parts that two servers share, in memory or in Redis."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from tests.integration.server.fleet.waiting import until
from tests.integration.server.redis_forms import FORMS, Form
from tests.integration.server.redis_server import RedisServer

from scope_server.fleet import Fleet, alone
from scope_server.redis.fleet import Records, joined


@pytest.fixture(scope="module")
def forms() -> Iterator[Callable[[str], Form]]:
    """A Redis in a form, see FORMS: without data, and of the module. Its folder's path is short enough for sockets."""
    with ExitStack() as stack:

        @cache
        def start(name: str) -> Form:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm"))
            return stack.enter_context(FORMS[name](Path(folder)))

        def empty(name: str) -> Form:
            start(name).flush()
            return start(name)

        yield empty


@pytest.fixture
def redis(forms: Callable[[str], Form]) -> RedisServer:
    """One Redis without data, for one test."""
    found = forms("one")
    assert isinstance(found, RedisServer)
    return found


@pytest.fixture(params=["memory", *FORMS])
async def pair(request: pytest.FixtureRequest, forms: Callable[[str], Form]) -> AsyncIterator[tuple[Fleet, Fleet]]:
    """What two servers share. In memory, it is one server: whatever holds of two holds of it."""
    if request.param == "memory":
        one = alone("one")
        yield one, one
    else:
        async with joined_twice(forms(request.param)) as both:
            yield both


@pytest.fixture
async def two(redis: RedisServer) -> AsyncIterator[tuple[Fleet, Fleet]]:
    """What two servers share in Redis."""
    async with joined_twice(redis) as both:
        yield both


@asynccontextmanager
async def joined_twice(redis: Form) -> AsyncIterator[tuple[Fleet, Fleet]]:
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
