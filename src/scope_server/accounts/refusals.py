"""Bounds how often an address may show tokens that are refused, before the database is asked for them.

What was valid a while ago goes on: nobody who sends from the same address locks its owner out.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg.rows import DictRow

from scope_server.errors import TooManyRequests
from scope_server.limits import Limits, Rate

Shown = bytes | str
Key = TypeVar("Key")
Value = TypeVar("Value")

_REFUSED = Rate(60, 100)
_MOST = 10_000  # addresses and valid tokens that are remembered; the oldest goes first


class Refusals:
    """What was shown, and whether it was valid."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._until: OrderedDict[str, float] = OrderedDict()  # by address that has shown too many
        self._valid: OrderedDict[Shown, None] = OrderedDict()

    async def bounded(self, address: str, shown: Shown, ask: Callable[[], Awaitable[list[DictRow]]]) -> list[DictRow]:
        """What a query finds of what was shown; nothing: it is to be refused.

        Args:
            shown: its digest or id.

        Raises:
            TooManyRequests: the address has shown too much that was refused; the query is not made.
        """
        left_s = self._until.get(address, 0.0) - time.monotonic()
        if left_s > 0 and shown not in self._valid:
            raise TooManyRequests(left_s, "tokens that are not valid")
        rows = await ask()
        if rows:
            _remember(self._valid, shown, None)
            return rows
        self._valid.pop(shown, None)
        try:
            await self._limits.take(_REFUSED, "refused", address)
        except TooManyRequests as error:
            _remember(self._until, address, time.monotonic() + error.wait_s)
        return rows


def _remember(kept: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _MOST:
        kept.popitem(last=False)
