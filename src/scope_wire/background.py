"""Work beside the main line: an end that nobody asked for is an error of whoever started it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

log = logging.getLogger(__name__)


class EndedUnexpectedly(RuntimeError):
    """Background work that runs until it is cancelled returned."""


@asynccontextmanager
async def background(**work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs coroutines, by name, while the block runs, then cancels them.

    If one of them ends, with an error or without, the block is cancelled and that error is raised from here, in an
    `ExceptionGroup`.
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
