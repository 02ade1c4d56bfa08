"""What is done with records in Redis, each at once: add some, find lost ones, finish some, share the partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from scope_server.redis import keys
from scope_server.redis.entry import PARTITIONS

LEASE_S = 10
GROUP = "writers"
_ANSWERS = 100_000  # of a receiver, at most
_ANSWERS_S = 3600  # after which those of a dead one are forgotten

# Entries are added in order, up to the first for which there is no room. Nothing that is not stored is ever trimmed.
# The size of a partition that lost its entries is forgotten.
_ADD = """
local held, added, at = 0, {}, 2
for _, bytes in ipairs(redis.call('HVALS', KEYS[1])) do held = held + bytes end
while ARGV[at] do
    local partition, size, last = ARGV[at], tonumber(ARGV[at + 1]), at + 2 + ARGV[at + 2]
    if held > 0 and held + size > tonumber(ARGV[1]) then
        for number = 2, #KEYS do
            if redis.call('XLEN', KEYS[number]) == 0 then redis.call('HDEL', KEYS[1], number - 2) end
        end
        break
    end
    redis.call('HINCRBY', KEYS[1], partition, size)
    held = held + size
    added[#added + 1] = redis.call('XADD', KEYS[partition + 2], '*', 'size', size, unpack(ARGV, at + 3, last))
    at = last + 1
end
return added
"""
_LACKING = """
local lacking = {}
for _, id in ipairs(ARGV) do
    if #redis.call('XRANGE', KEYS[1], id, id) == 0 then lacking[#lacking + 1] = id end
end
return lacking
"""
_FINISH = """
for at = 4, #ARGV, 5 do
    local partition, id, answers = ARGV[at], ARGV[at + 1], KEYS[ARGV[at + 2] + 1]
    local stream = KEYS[partition + 2]
    redis.call('XADD', answers, 'MAXLEN', '~', ARGV[2], '*', 'number', ARGV[at + 3], 'outcome', ARGV[at + 4])
    redis.call('EXPIRE', answers, ARGV[3])
    local entry = redis.call('XRANGE', stream, id, id)[1]
    redis.call('XACK', stream, ARGV[1], id)
    if entry then
        redis.call('XDEL', stream, id)
        redis.call('HINCRBY', KEYS[1], partition, -entry[2][2])
    end
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


@dataclass(frozen=True)
class Finished:
    """An entry whose record has an outcome.

    Attributes:
        receiver: who is told the outcome, and knows the record by `number`.
    """

    partition: int
    entry: bytes
    receiver: str
    number: int
    outcome: str


async def add(client: Redis, entries: Sequence[tuple[int, Mapping[str, bytes]]], most_bytes: int) -> list[bytes]:
    """Adds entries, each of a partition, in order; returns the ids of the first ones, for which there is room now."""
    given: list[bytes | str | int] = []
    for partition, fields in entries:
        parts = [part for field in fields.items() for part in field]
        given += [partition, sum(map(len, fields.values())), len(parts), *parts]
    run: Any = client.eval(_ADD, 1 + PARTITIONS, keys.BYTES, *_STREAMS, most_bytes, *given)
    return await run  # type: ignore[no-any-return]


async def lacking(client: Redis, partition: int, ids: Sequence[bytes]) -> set[bytes]:
    """Which of these entries are not in the stream."""
    run: Any = client.eval(_LACKING, 1, keys.records(partition), *ids)
    return set(await run)


async def finish(client: Redis, finished: Sequence[Finished]) -> None:
    """Tells receivers the outcomes, and removes the entries."""
    receivers = list({one.receiver for one in finished})
    named = [keys.BYTES, *_STREAMS, *map(keys.answers, receivers)]
    given: list[bytes | str | int] = []
    for one in finished:
        place = 1 + PARTITIONS + receivers.index(one.receiver)
        given += [one.partition, one.entry, place, one.number, one.outcome]
    run: Any = client.eval(_FINISH, len(named), *named, GROUP, _ANSWERS, _ANSWERS_S, *given)
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
