"""What is done with records in Redis, each at once: add one, find lost ones, finish one, share the partitions."""

from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis

from scope_server.redis import keys
from scope_server.redis.entry import PARTITIONS

LEASE_S = 10
GROUP = "writers"
_ANSWERS = 100_000  # of a receiver, at most
_ANSWERS_S = 3600  # after which those of a dead one are forgotten

# Nothing is added beyond the limit, and nothing that is not stored is ever trimmed. The size of a partition that lost
# its entries is forgotten.
_ADD = """
local held, size = 0, tonumber(ARGV[3])
for _, bytes in ipairs(redis.call('HVALS', KEYS[1])) do held = held + bytes end
if held > 0 and held + size > tonumber(ARGV[2]) then
    for number = 2, #KEYS do
        if redis.call('XLEN', KEYS[number]) == 0 then redis.call('HDEL', KEYS[1], number - 2) end
    end
    return false
end
redis.call('HINCRBY', KEYS[1], ARGV[1], size)
return redis.call('XADD', KEYS[ARGV[1] + 2], '*', 'size', size, unpack(ARGV, 4))
"""
_LACKING = """
local lacking = {}
for _, id in ipairs(ARGV) do
    if #redis.call('XRANGE', KEYS[1], id, id) == 0 then lacking[#lacking + 1] = id end
end
return lacking
"""
_FINISH = """
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*', 'number', ARGV[4], 'outcome', ARGV[5])
redis.call('EXPIRE', KEYS[3], ARGV[7])
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
redis.call('XACK', KEYS[1], ARGV[3], ARGV[2])
if entry then
    redis.call('XDEL', KEYS[1], ARGV[2])
    redis.call('HINCRBY', KEYS[2], ARGV[1], -entry[2][2])
end
"""
# A writer that has not renewed in time owns nothing. Who has fewer partitions than its share takes free ones.
_SHARE = """
local now, name, own, free = tonumber(redis.call('TIME')[1]), ARGV[1], {}, {}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZADD', KEYS[1], now, name)
local share = math.ceil(ARGV[3] / redis.call('ZCARD', KEYS[1]))
for partition = 0, ARGV[3] - 1 do
    local owner = redis.call('HGET', KEYS[2], partition)
    if owner == name then
        own[#own + 1] = partition
    elseif not owner or not redis.call('ZSCORE', KEYS[1], owner) then
        free[#free + 1] = partition
    end
end
while #own < share and #free > 0 do
    local partition = table.remove(free)
    redis.call('HSET', KEYS[2], partition, name)
    own[#own + 1] = partition
end
return {share, own}
"""
_GIVE_UP = """
for number = 2, #ARGV do
    if redis.call('HGET', KEYS[1], ARGV[number]) == ARGV[1] then redis.call('HDEL', KEYS[1], ARGV[number]) end
end
"""
_STREAMS = [keys.records(partition) for partition in range(PARTITIONS)]


async def add(client: Redis, partition: int, fields: Mapping[str, bytes], most_bytes: int) -> bytes | None:
    """Adds an entry; returns its id, or None if there is no room for it now."""
    size = sum(map(len, fields.values()))
    given = [part for field in fields.items() for part in field]
    run: Any = client.eval(_ADD, 1 + PARTITIONS, keys.BYTES, *_STREAMS, partition, most_bytes, size, *given)
    return await run  # type: ignore[no-any-return]


async def lacking(client: Redis, partition: int, ids: Sequence[bytes]) -> set[bytes]:
    """Which of these entries are not in the stream."""
    run: Any = client.eval(_LACKING, 1, keys.records(partition), *ids)
    return set(await run)


async def finish(client: Redis, entry: tuple[int, bytes], receiver: str, number: int, outcome: str) -> None:
    """Tells a receiver the outcome, and removes the entry: its partition and id."""
    partition, id_ = entry
    given = partition, id_, GROUP, number, outcome, _ANSWERS, _ANSWERS_S
    run: Any = client.eval(_FINISH, 3, keys.records(partition), keys.BYTES, keys.answers(receiver), *given)
    await run


async def share(client: Redis, writer: str) -> tuple[int, frozenset[int]]:
    """Renews a writer's lease, and gives it free partitions up to its share; returns the share and what it owns."""
    run: Any = client.eval(_SHARE, 2, keys.WRITERS, keys.OWNERS, writer, LEASE_S, PARTITIONS)
    most, own = await run
    return most, frozenset(own)


async def give_up(client: Redis, writer: str, partitions: Sequence[int]) -> None:
    """Gives partitions back."""
    run: Any = client.eval(_GIVE_UP, 1, keys.OWNERS, writer, *partitions)
    await run
