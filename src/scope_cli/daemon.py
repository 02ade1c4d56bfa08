"""How a daemon runs in the foreground: until SIGINT or SIGTERM, and how its errors end it."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from scope_cli.errors import CommandError
from scope_cli.service.notify import Notifier
from scope_wire.errors import WireError

_log = logging.getLogger(__name__)


@contextmanager
def imported_for_good() -> Iterator[None]:
    """What is imported meanwhile lives on, so the garbage collector looks at it neither now nor later.

    Later, each look at a server's modules would stop all of its threads for 50 to 100 ms.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def run_until_signalled(
    serve: Callable[[asyncio.Event, Notifier], Awaitable[None]], explained: type[Exception]
) -> None:
    """Runs `serve` with an event that a signal sets; returns when it has ended in order.

    Args:
        serve: the daemon; it tells the service manager when it is ready.
        explained: the root of its errors, whose messages are for users.

    Raises:
        CommandError: it ended with an error; the message is that of the first cause, in one line.
    """

    async def main() -> None:
        stop, notifier = asyncio.Event(), Notifier(os.environ)

        def end() -> None:
            stop.set()
            notifier.stopping()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end)
        watching = asyncio.create_task(notifier.watch())
        try:
            await serve(stop, notifier)
        finally:
            watching.cancel()

    try:
        asyncio.run(main())
    except Exception as error:
        known = (explained, WireError)
        cause = _cause(error, known)
        if cause is not error or not isinstance(cause, known):
            _log.error("ended by an error", exc_info=error)
        text = str(cause) if isinstance(cause, known) else f"{type(cause).__name__}: {cause}"
        raise CommandError("; ".join(text.split("\n"))) from None


def _cause(error: Exception, known: tuple[type[Exception], ...]) -> Exception:
    """The error itself or, of a group, the first that is explained, or the first."""
    if not isinstance(error, ExceptionGroup):
        return error
    causes = [_cause(one, known) for one in error.exceptions]
    return next((one for one in causes if isinstance(one, known)), causes[0])
