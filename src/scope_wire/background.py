"""Background work: if it ends by itself, the code that started it gets an error."""

import asyncio
import logging
import sys
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


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group for code that goes on after its errors: if it is cancelled while a task fails, it ends as cancelled.

    Before Python 3.13, the errors alone are raised then (CPython's issue 116720): whoever catches them goes on, and
    waits for a second cancellation, which never comes. A group that only waits for its tasks cancels its own task when
    one of them fails, and does not take that back: it is no cancellation from outside.
    """
    task = asyncio.current_task()
    assert task
    in_block = False
    try:
        async with asyncio.TaskGroup() as group:
            try:
                yield group
            finally:
                in_block = _cancels(group)  # the group takes this one back
    except BaseExceptionGroup:
        if sys.version_info < (3, 13) and _cancels(group) and not in_block:
            task.uncancel()
        if task.cancelling():
            raise asyncio.CancelledError from None
        raise


def _cancels(group: asyncio.TaskGroup) -> bool:
    """Whether the group has cancelled the task that it is in."""
    return bool(group._parent_cancel_requested)  # type: ignore[attr-defined]


async def _forever(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("background work failed", extra={"work": name})
        raise
    raise EndedUnexpectedly(f"{name} ended")
