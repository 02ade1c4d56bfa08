"""Clients of redis-py: of the event loop, and of threads. Nothing waits longer than the limits here."""

from typing import Any

import redis
from redis import asyncio as redis_asyncio
from redis import sentinel
from redis.asyncio import sentinel as sentinel_asyncio
from redis.asyncio.retry import Retry as RetryAsync
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

from scope_server.redis.address import Address

CONNECT_S = 2.0
ANSWER_S = 3.0  # longer than the longest wait that is asked for
BLOCK_MS = 1000  # how long a read waits for something new
AWAY = (redis.RedisError, OSError, TimeoutError)  # what is raised when Redis does not do what is asked
_LIMITS: dict[str, Any] = {
    "socket_connect_timeout": CONNECT_S,
    "socket_timeout": ANSWER_S,
    "client_name": "scope",
}


def in_loop(at: Address) -> "redis_asyncio.Redis":
    """A client for coroutines. It connects when it is first used."""
    limits = _LIMITS | {"retry": RetryAsync(NoBackoff(), 0)}
    if at.kind == "one":
        return redis_asyncio.Redis.from_url(at.url, password=at.password, **limits)
    if at.kind == "sentinel":
        found = sentinel_asyncio.Sentinel(list(at.hosts), **_several(at), **limits)  # type: ignore[no-untyped-call]
        return found.master_for(at.service)  # type: ignore[no-any-return]
    nodes = [redis_asyncio.cluster.ClusterNode(host, port) for host, port in at.hosts]
    return redis_asyncio.RedisCluster(startup_nodes=nodes, **_several(at), **_LIMITS)  # type: ignore[return-value]


def in_thread(at: Address) -> "redis.Redis":
    """A client for threads, each of which may use it."""
    limits = _LIMITS | {"retry": Retry(NoBackoff(), 0)}
    if at.kind == "one":
        return redis.Redis.from_url(at.url, password=at.password, **limits)
    if at.kind == "sentinel":
        found = sentinel.Sentinel(list(at.hosts), **_several(at), **limits)  # type: ignore[no-untyped-call]
        return found.master_for(at.service)  # type: ignore[no-untyped-call, no-any-return]
    nodes = [ClusterNode(host, port) for host, port in at.hosts]  # type: ignore[no-untyped-call]
    return redis.RedisCluster(startup_nodes=nodes, **_several(at), **_LIMITS)  # type: ignore[return-value]


def _several(at: Address) -> dict[str, Any]:
    trusted = {"ssl_ca_certs": at.authority} if at.authority else {}
    return {"username": at.username, "password": at.password} | ({"ssl": True, **trusted} if at.tls else {})
