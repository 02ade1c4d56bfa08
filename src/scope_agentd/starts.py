"""The order in which runs start: a few at a time, so that many starts leave the agent time to answer its server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

AT_ONCE = 2


class Starts:
    """The starts of all runs. For the event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def turn(self, given_up: asyncio.Event) -> AsyncIterator[None]:
        """Is entered when it is this run's turn, or at once when `given_up` is set."""
        turn = asyncio.create_task(self._turns.acquire())
        end = asyncio.create_task(given_up.wait())
        try:
            await asyncio.wait((turn, end), return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            end.cancel()
            if not turn.cancel():  # it was this run's turn
                self._turns.release()
