"""The client of redis-py, for each form of a Redis. Nothing waits longer than the limits here."""

from typing import Any

import redis
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from scope_server.redis.address import Address
from scope_server.redis.cluster import Cluster

CONNECT_S = 2.0
ANSWER_S = 3.0  # longer than the longest wait that is asked for
BLOCK_MS = 1000  # how long a read waits for something new
AWAY = (redis.RedisError, OSError, TimeoutError)  # what is raised when Redis does not do what is asked
_LIMITS: dict[str, Any] = {"socket_connect_timeout": CONNECT_S, "socket_timeout": ANSWER_S}
_NAMED = _LIMITS | {"client_name": "scope"}


def client_of(at: Address) -> Redis:
    """A client for coroutines. It connects when it is first used."""
    once: dict[str, Any] = {"retry": Retry(NoBackoff(), 0)}
    if at.kind == "one":
        return Redis.from_url(at.url, password=at.password, **_NAMED, **once)
    tls = ({"ssl": True} | ({"ssl_ca_certs": at.authority} if at.authority else {})) if at.tls else {}
    own = {"username": at.username, "password": at.password, **tls, **_NAMED}
    if at.kind == "sentinel":
        watching = {"password": at.sentinel_password, **tls, **_LIMITS, **once}  # they refuse that of Redis
        found = Sentinel(list(at.hosts), sentinel_kwargs=watching, **own, **once)  # type: ignore[no-untyped-call]
        return found.master_for(at.service)  # type: ignore[no-any-return]
    nodes = [ClusterNode(host, port) for host, port in at.hosts]
    return Cluster(startup_nodes=nodes, **own)  # type: ignore[return-value]


async def close(client: Redis) -> None:
    """Closes a client's connections, those to Sentinels, too."""
    await client.aclose()
    manager = getattr(client.connection_pool, "sentinel_manager", None) if isinstance(client, Redis) else None
    for one in manager.sentinels if manager else ():
        await one.aclose()
