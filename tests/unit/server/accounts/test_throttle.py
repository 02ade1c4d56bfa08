"""How fast passwords can be tried."""

import pytest

from scope_server.accounts import throttle
from scope_server.accounts.throttle import Buckets, Throttle
from scope_server.errors import TooManyRequests


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> "Clock":
    """Time that passes when a test says so."""
    clock = Clock()
    monkeypatch.setattr(throttle.time, "monotonic", lambda: clock.now)
    return clock


class Clock:
    """A clock."""

    now = 1000.0


def tries(throttled: Throttle, count: int, *, known: bool, address: str = "") -> int:
    """How many of so many attempts at one account are let through; each comes from another address, or from this."""
    through = 0
    for number in range(count):
        try:
            throttled.account("ada@example.org", address or f"10.0.0.{number}", known_address=known)
            through += 1
        except TooManyRequests:
            pass
    return through


def test_a_bucket_refills(clock: Clock) -> None:
    """It says when there is room again, and there is."""
    bucket = Buckets(burst=2, per_minute=6)
    bucket.take("a")
    bucket.take("a")
    with pytest.raises(TooManyRequests, match="try again in 10 s") as caught:
        bucket.take("a")
    bucket.take("b")
    clock.now += caught.value.wait_s
    bucket.take("a")
    with pytest.raises(TooManyRequests):
        bucket.take("a")


@pytest.mark.usefixtures("clock")
def test_many_addresses_together_try_few_passwords() -> None:
    """An account's bucket is one for all strangers."""
    assert tries(Throttle(), 1000, known=False) == 20


@pytest.mark.usefixtures("clock")
def test_an_attack_does_not_lock_the_owner_out() -> None:
    """From an address where the owner has logged in before, there is room."""
    throttled = Throttle()
    tries(throttled, 1000, known=False)
    assert tries(throttled, 1, known=True, address="192.0.2.1") == 1


@pytest.mark.usefixtures("clock")
def test_who_was_right_has_used_nothing() -> None:
    """Scripts that log in again and again are not refused."""
    throttled = Throttle()
    for _ in range(100):
        throttled.address("192.0.2.1")
        assert tries(throttled, 1, known=True, address="192.0.2.1") == 1
        throttled.succeeded("ada@example.org", "192.0.2.1")


@pytest.mark.usefixtures("clock")
def test_its_memory_is_bounded() -> None:
    """Keys that strangers make up do not fill it."""
    bucket = Buckets(burst=1, per_minute=1)
    for number in range(throttle._MOST + 500):
        bucket.take(f"{number}")
    assert len(bucket._left) == throttle._MOST
