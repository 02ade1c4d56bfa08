"""How a daemon runs in the foreground: until SIGINT or SIGTERM."""

import asyncio
import signal
from collections.abc import Awaitable, Callable


def run_until_signalled(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Runs `serve` with an event that a signal sets; returns when it has ended in order."""

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(stop)

    asyncio.run(main())
