"""Redis may go away, and lose all that it has: what servers share goes on as far as it can, and comes back."""

import asyncio
import time

import pytest
from tests.integration.server.fleet.waiting import until
from tests.integration.server.redis_server import RedisServer

from scope_server.errors import TooManyRequests
from scope_server.fleet import Fleet
from scope_server.limits import Rate
from scope_server.redis.clients import ANSWER_S
from scope_server.signals import Topic

MACHINE = "a" * 32
SLOW = Rate(per_minute=0.01, burst=1)


async def _is_known(fleet: Fleet) -> bool:
    return await fleet.directory.holder(MACHINE) == "one"


async def test_a_paused_redis_holds_nobody_up(redis: RedisServer, two: tuple[Fleet, Fleet]) -> None:
    """Each server bounds for itself, knows its own sessions, and asks Redis nothing until it answers again."""
    one, other = two
    one.directory.hold(MACHINE)
    await until(lambda: _is_known(other))
    redis.pause()
    try:
        await until(lambda: one.away() and other.away())
        began = time.monotonic()
        for fleet in two:
            await fleet.limits.take(SLOW, "a")
            with pytest.raises(TooManyRequests):
                await fleet.limits.take(SLOW, "a")
        assert await one.directory.holder(MACHINE) == "one"
        assert await other.directory.holder(MACHINE) is None
        one.signals.tell(Topic.ENDED, ["told while it was away"])
        assert time.monotonic() - began < ANSWER_S  # a single question to Redis would have taken as long
    finally:
        redis.resume()
    await until(lambda: _is_known(other))


async def test_lost_data_come_back(redis: RedisServer, two: tuple[Fleet, Fleet]) -> None:
    """Sessions that are held are known again after Redis has lost its data, with or without its connections."""
    one, other = two
    one.directory.hold(MACHINE)
    for lose in (redis.flush, lambda: (redis.kill(), redis.start())):
        await until(lambda: _is_known(other))
        lose()
    await until(lambda: _is_known(other))


async def test_signals_that_were_missed_are_supposed(redis: RedisServer, two: tuple[Fleet, Fleet]) -> None:
    """Who cannot have heard what was told is told that anything may have changed."""
    one, other = two
    heard: list[list[str]] = []
    other.signals.on(Topic.ENDED, lambda names: heard.append(list(names)))
    redis.kill()
    await until(lambda: one.away() and other.away())
    one.signals.tell(Topic.ENDED, ["a"])
    await asyncio.sleep(0)
    redis.start()
    await until(lambda: [] in heard or ["a"] in heard)
    heard.clear()
    while ["b"] not in heard:
        one.signals.tell(Topic.ENDED, ["b"])
        await asyncio.sleep(0.05)


async def test_a_dead_servers_sessions_are_forgotten(redis: RedisServer, two: tuple[Fleet, Fleet]) -> None:
    """A server that renews nothing holds nothing, and its name goes."""
    _, other = two
    with redis.client as client:
        client.sadd("{scope}:servers", "dead")
        client.sadd("{scope}:sessions:dead", MACHINE)
        assert await other.directory.holder(MACHINE) == "dead"
        client.pexpire("{scope}:sessions:dead", 1)
        await until(lambda: not client.sismember("{scope}:servers", "dead"))
    assert await other.directory.holder(MACHINE) is None
