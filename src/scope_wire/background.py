"""Background work: if it ends by itself, the code that started it gets an error."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

log = logging.getLogger(__name__)


class EndedUnexpectedly(RuntimeError):
    """Background work returned, although it should run until cancelled."""


@asynccontextmanager
async def background(**work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs the named coroutines while the block runs, then cancels them.

    If a coroutine ends, with or without an error, the block is cancelled and an `ExceptionGroup` with the error is
    raised.
    """
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(_forever(name, one), name=name) for name, one in work.items()]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


async def _forever(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("background work failed", extra={"work": name})
        raise
    raise EndedUnexpectedly(f"{name} ended")
