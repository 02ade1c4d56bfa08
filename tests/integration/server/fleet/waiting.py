"""Waiting for what another server, or Redis, brings about."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(true: Callable[[], Any], seconds: float = 60) -> None:
    """Waits until a function, or a coroutine function, returns something true."""
    async with asyncio.timeout(seconds):
        while not (await found if inspect.isawaitable(found := true()) else found):
            await asyncio.sleep(0.02)
