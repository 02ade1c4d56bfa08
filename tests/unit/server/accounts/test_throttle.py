"""How fast passwords can be tried."""

import pytest

from scope_server import limits
from scope_server.accounts.throttle import Throttle
from scope_server.errors import TooManyRequests
from scope_server.limits import LocalLimits, Rate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> "Clock":
    """Time that passes when a test says so."""
    clock = Clock()
    monkeypatch.setattr("scope_server.limits.time.monotonic", lambda: clock.now)
    return clock


class Clock:
    """A clock."""

    now = 1000.0


async def tries(throttled: Throttle, count: int, *, owner: str = "") -> int:
    """How many of so many attempts at one account are let through, from strangers or from an owner's device."""
    through = 0
    for _ in range(count):
        try:
            await throttled.account("ada@example.org", owner)
            through += 1
        except TooManyRequests:
            pass
    return through


async def test_a_bucket_refills(clock: Clock) -> None:
    """It says when there is room again, and there is."""
    buckets, rate = LocalLimits(), Rate(per_minute=6, burst=2)
    await buckets.take(rate, "a")
    await buckets.take(rate, "a")
    with pytest.raises(TooManyRequests, match="try again in 10 s") as caught:
        await buckets.take(rate, "a")
    await buckets.take(rate, "b")
    clock.now += caught.value.wait_s
    await buckets.take(rate, "a")
    with pytest.raises(TooManyRequests):
        await buckets.take(rate, "a")


@pytest.mark.usefixtures("clock")
async def test_many_addresses_together_try_few_passwords() -> None:
    """An account's bucket is one for all strangers."""
    assert await tries(Throttle(LocalLimits()), 1000) == 20


@pytest.mark.usefixtures("clock")
async def test_an_attack_does_not_lock_the_owner_out() -> None:
    """With a device or address of the owner, there is room."""
    throttled = Throttle(LocalLimits())
    await tries(throttled, 1000)
    assert await tries(throttled, 1, owner="192.0.2.1") == 1


@pytest.mark.usefixtures("clock")
async def test_who_was_right_has_used_nothing() -> None:
    """Scripts that log in again and again are not refused."""
    throttled = Throttle(LocalLimits())
    for _ in range(100):
        await throttled.address("192.0.2.1")
        assert await tries(throttled, 1, owner="192.0.2.1") == 1
        await throttled.succeeded("ada@example.org", "192.0.2.1", "192.0.2.1")


@pytest.mark.usefixtures("clock")
async def test_its_memory_is_bounded() -> None:
    """Keys that strangers make up do not fill it."""
    buckets, rate = LocalLimits(), Rate(per_minute=1, burst=1)
    for number in range(limits._MOST + 500):
        await buckets.take(rate, f"{number}")
    assert len(buckets._buckets[rate]) == limits._MOST
