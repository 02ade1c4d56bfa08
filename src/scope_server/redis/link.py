"""The event loop's connection to Redis: while Redis is away, whoever asks is told so at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis

from scope_server.errors import RedisAway
from scope_server.redis.address import Address
from scope_server.redis.clients import AWAY, client_of, close

_T = TypeVar("_T")

_LOOK_S = 1.0
_log = logging.getLogger(__name__)


class Link:
    """A client that knows whether Redis answers.

    Attributes:
        away: why Redis does not answer; empty if it does.
    """

    def __init__(self, at: Address) -> None:
        self._client = client_of(at)
        self.away = "it was not asked yet"

    async def run(self) -> None:
        """Looks again and again whether Redis answers, until cancelled."""
        while True:
            try:
                await _cancellable(self._client.ping())
            except AWAY as error:
                self._note(error)
            else:
                if self.away:
                    _log.info("Redis answers")
                self.away = ""
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        """Closes its connections."""
        await close(self._client)

    async def ask(self, question: Callable[[Redis], Awaitable[_T]]) -> _T:
        """The answer of Redis.

        Raises:
            RedisAway: there is none; without a wait if there was none before.
        """
        if self.away:
            raise RedisAway(self.away)
        try:
            return await _cancellable(question(self._client))
        except AWAY as error:
            self._note(error)
            raise RedisAway(self.away) from error

    def _note(self, error: Exception) -> None:
        if not self.away:
            _log.warning("Redis does not answer", extra={"reason": reason(error)})
        self.away = reason(error)


async def _cancellable(asked: Awaitable[_T]) -> _T:
    # redis-py looks with `timeout(0)` whether a connection has data. A cancellation at that moment would be lost.
    try:
        return await asked
    finally:
        task = asyncio.current_task()
        if task and task.cancelling():
            raise asyncio.CancelledError


def reason(error: Exception) -> str:
    """Why Redis does not answer, in a line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
