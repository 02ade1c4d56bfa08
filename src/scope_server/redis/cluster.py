"""redis-py's client of a Cluster, for many coroutines at once.

When a node is lost, redis-py (8.1) closes all connections, those that other coroutines are using, too: these then fail
with errors of any type. Here they fail as when the other end closes the connection.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterPipeline
from redis.exceptions import ConnectionError as RedisConnectionError


class Cluster(RedisCluster):
    """A client of a Cluster."""

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        """See redis-py."""
        with _closed_by_another():
            return await super().execute_command(*args, **kwargs)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        """See redis-py."""
        return _Pipeline(self, transaction)  # type: ignore[abstract]


class _Pipeline(ClusterPipeline):
    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        with _closed_by_another():
            return await super().execute(raise_on_error, allow_redirections)


@contextmanager
def _closed_by_another() -> Iterator[None]:
    try:
        yield
    except (AttributeError, TypeError, RuntimeError) as error:
        raise RedisConnectionError(f"the connection was closed meanwhile: {error}") from error
