"""Background work: if it ends by itself, the code that started it gets an error."""

import asyncio
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
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


class TaskGroup(asyncio.TaskGroup):
    """A task group for code that goes on after its errors.

    If it is cancelled while a task fails, it ends as cancelled. Before Python 3.13, the errors alone are raised then
    (CPython's issue 116720): whoever catches them goes on, and waits for a second cancellation, which never comes.

    What its block held is let go of. A plain group's last frame and the error that it raises hold each other, so that
    only the garbage collector would close a call of the block, and its socket.
    """

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        in_block = self._has_cancelled()  # the group takes this one back
        try:
            await super().__aexit__(kind, error, trace)
        except BaseException as raised:
            traceback.clear_frames(raised.__traceback__)
            # A group that only waits for its tasks cancels its own task when one fails, and does not take that back.
            if self._has_cancelled() and not in_block:
                self._task.uncancel()
            if isinstance(raised, BaseExceptionGroup) and self._task.cancelling():
                raise asyncio.CancelledError from None
            raise
        finally:
            # Python 3.13 does this: the task holds its cancellation, that the frames of the block, and these the group.
            self._parent_task = None
            del error, trace

    @property
    def _task(self) -> asyncio.Task[Any]:
        task = asyncio.current_task()
        assert task
        return task

    def _has_cancelled(self) -> bool:
        """Whether the group has cancelled the task that it is in. From Python 3.13 on, it always takes that back."""
        return sys.version_info < (3, 13) and bool(self._parent_cancel_requested)  # type: ignore[attr-defined]  # private


async def _forever(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("background work failed", extra={"work": name})
        raise
    raise EndedUnexpectedly(f"{name} ended")
