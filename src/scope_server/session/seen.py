"""When each agent was last heard and what it told of itself: one statement for all of them, every few seconds."""

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Share

log = logging.getLogger(__name__)

EVERY_S = 5.0


class Seen:
    """Notes which agents were heard, and writes it to the database."""

    def __init__(self, database: Share) -> None:
        self._database = database
        # By the machine's key: when, how far its clock is ahead, and its spool as JSON.
        self._heard: dict[int, tuple[datetime, int, str | None]] = {}
        self._probes: dict[int, bytes] = {}

    def note(self, machine: int, clock_ahead_ns: int, spool: Mapping[str, int] | None) -> None:
        """Notes that a machine's agent was heard now, and what waits there to be sent."""
        self._heard[machine] = datetime.now(UTC), clock_ahead_ns, None if spool is None else json.dumps(dict(spool))

    def note_probes(self, machine: int, compressed: bytes) -> None:
        """Notes the probes that a machine's agent has told."""
        self._probes[machine] = compressed

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if self._heard or self._probes:
                await self._write()

    async def _write(self) -> None:
        heard, self._heard = self._heard, {}
        probes, self._probes = self._probes, {}
        columns = [list(column) for column in zip(*heard.values(), strict=True)] or [[], [], []]
        of_machines = {"machine": list(heard), **dict(zip(("at", "clock_ahead_ns", "spool"), columns, strict=True))}
        try:
            await self._database.run("seen", of_machines)
            if probes:
                await self._database.run("told_probes", {"machine": list(probes), "probes": list(probes.values())})
        except StoreUnavailable as error:
            self._heard, self._probes = heard | self._heard, probes | self._probes
            log.warning("when agents were heard waits for the database", extra={"reason": str(error)})
