"""How often something may be done: token buckets, which the servers of a fleet have in common."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from scope_server.errors import TooManyRequests

_MOST = 10_000  # buckets of a rate; the one used longest ago goes first


@dataclass(frozen=True)
class Rate:
    """A limit.

    Attributes:
        per_minute: times in the long run.
        burst: times at once after a pause.
    """

    per_minute: float
    burst: int


class Limits(Protocol):
    """The buckets of all rates and keys."""

    async def take(self, rate: Rate, *key: str, tokens: int = 1) -> None:
        """Takes tokens of a key.

        Args:
            tokens: at most the rate's burst.

        Raises:
            TooManyRequests: the key has fewer, and keeps them; says when it has as many again.
        """

    async def give_back(self, rate: Rate, *key: str) -> None:
        """Fills the bucket of a key that has shown that it may act."""


class LocalLimits:
    """The buckets of a server that is alone."""

    def __init__(self) -> None:
        self._buckets: dict[Rate, OrderedDict[tuple[str, ...], tuple[float, float]]] = {}  # tokens, when

    async def take(self, rate: Rate, *key: str, tokens: int = 1) -> None:
        """See Limits."""
        buckets, per_s, now = self._buckets.setdefault(rate, OrderedDict()), rate.per_minute / 60, time.monotonic()
        left, when = buckets.pop(key, (float(rate.burst), now))
        left = min(rate.burst, left + (now - when) * per_s)
        buckets[key] = (left - tokens if left >= tokens else left, now)
        if len(buckets) > _MOST:
            buckets.popitem(last=False)
        if left < tokens:
            raise TooManyRequests((tokens - left) / per_s)

    async def give_back(self, rate: Rate, *key: str) -> None:
        """See Limits."""
        self._buckets.get(rate, OrderedDict()).pop(key, None)
