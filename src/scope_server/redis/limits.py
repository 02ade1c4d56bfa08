"""Token buckets in Redis, by its clock. While Redis is away, each server bounds for itself."""

import hashlib
import json
from typing import Any

from redis.asyncio import Redis

from scope_server.errors import RedisAway, TooManyRequests
from scope_server.limits import LocalLimits, Rate
from scope_server.redis import keys
from scope_server.redis.link import Link

# A bucket that would be full again expires.
_TAKE = """
local now = redis.call('TIME')
local at = now[1] + now[2] / 1e6
local burst, per_s, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local kept = redis.call('HMGET', KEYS[1], 'left', 'at')
local left, wait = burst, 0
if kept[1] then
    left = math.min(burst, tonumber(kept[1]) + math.max(0, at - tonumber(kept[2])) * per_s)
end
if left >= tokens then
    left = left - tokens
else
    wait = (tokens - left) / per_s
end
redis.call('HSET', KEYS[1], 'left', string.format('%.9f', left), 'at', string.format('%.6f', at))
redis.call('PEXPIRE', KEYS[1], math.ceil(1000 * burst / per_s))
return string.format('%.6f', wait)
"""


class RedisLimits:
    """The buckets of a fleet."""

    def __init__(self, link: Link) -> None:
        self._link, self._alone = link, LocalLimits()

    async def take(self, rate: Rate, *key: str, tokens: int = 1) -> None:
        """See Limits."""
        try:
            wait_s = await self._link.ask(lambda client: _take(client, rate, key, tokens))
        except RedisAway:
            await self._alone.take(rate, *key, tokens=tokens)
            return
        if wait_s:
            raise TooManyRequests(wait_s)

    async def give_back(self, rate: Rate, *key: str) -> None:
        """See Limits."""
        await self._alone.give_back(rate, *key)
        try:
            await self._link.ask(lambda client: client.delete(_bucket(rate, key)))
        except RedisAway:
            return


async def _take(client: Redis, rate: Rate, key: tuple[str, ...], tokens: int) -> float:
    given = str(rate.burst), str(rate.per_minute / 60), str(tokens)
    waits: Any = await client.eval(_TAKE, 1, _bucket(rate, key), *given)
    return float(waits)


def _bucket(rate: Rate, key: tuple[str, ...]) -> str:
    # A digest, because strangers choose the key.
    said = json.dumps([rate.burst, rate.per_minute, *key])
    return keys.limit(hashlib.sha256(said.encode()).hexdigest())
