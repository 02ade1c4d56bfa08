"""What servers share keeps its promises in memory and in Redis: one suite over both twins."""

import asyncio
from collections.abc import Collection

import pytest
from tests.integration.server.fleet.waiting import until

from scope_server.errors import TooManyRequests
from scope_server.fleet import Fleet
from scope_server.limits import Rate
from scope_server.signals import Topic

Pair = tuple[Fleet, Fleet]
MACHINE, OTHER = "a" * 32, "b" * 32
SLOW = Rate(per_minute=0.01, burst=3)


async def _held(fleet: Fleet, machine: str) -> bool:
    return await fleet.directory.holder(machine) is not None


async def test_who_holds_a_session(pair: Pair) -> None:
    """Every server knows that a machine's session is held, from `hold` until `release`."""
    one, other = pair
    assert await other.directory.holder(MACHINE) is None
    one.directory.hold(MACHINE)
    await until(lambda: _held(other, MACHINE))
    assert await other.directory.holder(MACHINE) == await one.directory.holder(MACHINE) == "one"
    assert await other.directory.holder(OTHER) is None
    assert await other.directory.connected() == {MACHINE}
    one.directory.release(MACHINE)
    one.directory.release(MACHINE)
    assert await one.directory.holder(MACHINE) is None
    await until(lambda: _is_free(other))
    assert await other.directory.connected() == frozenset()


async def _is_free(fleet: Fleet) -> bool:
    return not await _held(fleet, MACHINE)


async def test_news_are_of_one_machine_and_none_is_missed(pair: Pair) -> None:
    """News that come between two waits end the next one; each reader gets them, whichever server was told."""
    one, other = pair
    with other.directory.news(MACHINE) as first, other.directory.news(MACHINE) as second:
        for change in (one.directory.hold, one.directory.tell, one.directory.release):
            change(MACHINE)
            for news in (first, second):
                async with asyncio.timeout(60):
                    await news.wait()
    one.directory.tell(MACHINE)  # nobody reads it any more


async def test_who_waits_for_a_session_sees_it(pair: Pair) -> None:
    """Whoever asks again with each news learns that a session has begun, and that it has ended."""
    one, other = pair
    with other.directory.news(MACHINE) as news:
        for change, holds in ((one.directory.hold, True), (one.directory.release, False)):
            change(MACHINE)
            async with asyncio.timeout(60):
                while await _held(other, MACHINE) is not holds:
                    await news.wait()


async def test_signals_reach_every_server(pair: Pair) -> None:
    """Each is heard by whoever asked for its topic, with its names, also when a thread tells it."""
    one, other = pair
    heard: dict[str, set[str]] = {"one": set(), "other": set(), "another topic": set()}

    def hears(name: str, names: Collection[str]) -> None:
        heard[name].update(names)

    one.signals.on(Topic.COMMITTED, lambda names: hears("one", names))
    other.signals.on(Topic.COMMITTED, lambda names: hears("other", names))
    other.signals.on(Topic.ENDED, lambda names: hears("another topic", names))
    while "joined" not in heard["other"]:  # a server that joins hears what is told from then on
        one.signals.tell(Topic.COMMITTED, ["joined"])
        await asyncio.sleep(0.02)
    for number in range(100):
        await asyncio.to_thread(one.signals.tell, Topic.COMMITTED, [f"stream {number}"])
    all_of_them = {"joined", *(f"stream {number}" for number in range(100))}
    await until(lambda: heard["one"] == heard["other"] == all_of_them)
    assert heard["another topic"] == set()


async def test_a_limit_is_one_for_all_servers(pair: Pair) -> None:
    """A key has its burst once, wherever it is used; other keys and other rates have their own."""
    one, other = pair
    for fleet in (one, other, one):
        await fleet.limits.take(SLOW, "a", "b")
    for fleet in pair:
        with pytest.raises(TooManyRequests) as told:
            await fleet.limits.take(SLOW, "a", "b")
        assert 5000 < told.value.wait_s <= 6000
        await fleet.limits.take(SLOW, "a b")
        await fleet.limits.take(Rate(per_minute=0.01, burst=4), "a", "b")
    await other.limits.give_back(SLOW, "a", "b")
    await one.limits.take(SLOW, "a", "b")


async def test_a_bucket_refills(pair: Pair) -> None:
    """After the time that is told, there is a token."""
    one, other = pair
    quick = Rate(per_minute=300, burst=1)
    await one.limits.take(quick, "a")
    with pytest.raises(TooManyRequests) as told:
        for _ in range(100):  # on a slow machine, a token comes back meanwhile
            await other.limits.take(quick, "a")
    await asyncio.sleep(told.value.wait_s + 0.01)
    await other.limits.take(quick, "a")


async def test_strangers_keys_are_keys(pair: Pair) -> None:
    """Any text is a key, and no text makes two keys one."""
    one, _ = pair
    for key in (("\ud800",), ("a\0b",), ("a", "b"), ("\n", ""), ("x" * 100_000,)):
        for _ in range(SLOW.burst):
            await one.limits.take(SLOW, *key)


async def test_many_tokens_are_taken_at_once_or_not_at_all(pair: Pair) -> None:
    """Who asks for more than there are gets none, and is told when there are as many."""
    one, other = pair
    rate = Rate(per_minute=0.06, burst=100)
    await one.limits.take(rate, "a", tokens=60)
    with pytest.raises(TooManyRequests) as told:
        await other.limits.take(rate, "a", tokens=41)
    assert 900 < told.value.wait_s <= 1000
    await other.limits.take(rate, "a", tokens=40)
