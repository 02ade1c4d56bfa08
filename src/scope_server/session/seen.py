"""When each agent was last heard: one statement for all of them, every few seconds."""

import asyncio
import logging
from datetime import UTC, datetime

from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Share

log = logging.getLogger(__name__)

EVERY_S = 5.0


class Seen:
    """Notes which agents were heard, and writes it to the database."""

    def __init__(self, database: Share) -> None:
        self._database = database
        self._heard: dict[int, tuple[datetime, int]] = {}  # by the machine's key: when, how far its clock is ahead

    def note(self, machine: int, clock_ahead_ns: int) -> None:
        """Notes that a machine's agent was heard now."""
        self._heard[machine] = datetime.now(UTC), clock_ahead_ns

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if self._heard:
                await self._write()

    async def _write(self) -> None:
        heard, self._heard = self._heard, {}
        moments, ahead = zip(*heard.values(), strict=True)
        try:
            await self._database.run(
                "seen", {"machine": list(heard), "at": list(moments), "clock_ahead_ns": list(ahead)}
            )
        except StoreUnavailable as error:
            self._heard = heard | self._heard
            log.warning("when agents were heard waits for the database", extra={"reason": str(error)})
