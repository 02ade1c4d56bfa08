"""Bounds how fast passwords can be tried, without locking out the account's owner.

An attacker who tries many passwords of one account exhausts what strangers may try of it. An address from which its
owner has logged in before has a bucket of its own.
"""

import time
from collections import OrderedDict

from scope_server.errors import TooManyRequests

_MOST = 10_000  # buckets; the one used longest ago goes first


class Buckets:
    """A token bucket for each key.

    Args:
        burst: how often a key may act at once.
        per_minute: how many more times it may act each minute.
    """

    def __init__(self, burst: int, per_minute: float) -> None:
        self._burst, self._per_s = burst, per_minute / 60
        self._left: OrderedDict[tuple[str, ...], tuple[float, float]] = OrderedDict()  # tokens, when

    def take(self, *key: str) -> None:
        """Takes a token.

        Raises:
            TooManyRequests: the key has none; says when it has one again.
        """
        now = time.monotonic()
        left, when = self._left.pop(key, (float(self._burst), now))
        left = min(self._burst, left + (now - when) * self._per_s)
        self._left[key] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        if left < 1:
            raise TooManyRequests((1 - left) / self._per_s)

    def give_back(self, *key: str) -> None:
        """Fills the bucket of a key that has shown that it may act."""
        self._left.pop(key, None)


class Throttle:
    """For logins."""

    def __init__(self) -> None:
        self._addresses = Buckets(30, 30)
        self._strangers = Buckets(20, 10)
        self._owners = Buckets(10, 10)

    def address(self, address: str) -> None:
        """Before anything is looked up.

        Raises:
            TooManyRequests: this address tries too often.
        """
        self._addresses.take(address)

    def account(self, email: str, address: str, *, known_address: bool) -> None:
        """Before a password is compared.

        Raises:
            TooManyRequests: this account is tried too often from there.
        """
        if known_address:
            self._owners.take(email, address)
        else:
            self._strangers.take(email)

    def succeeded(self, email: str, address: str) -> None:
        """The password was right: its owner has used none of what this address may try."""
        self._addresses.give_back(address)
        self._owners.give_back(email, address)
