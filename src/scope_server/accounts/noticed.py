"""What is done without a request of the API is in the audit log, too: a changed retention, and acts on machines.

An agent tells, when it can, which tasks people started and stopped on its machine. Triggers keep that in `store.acts`
with the tasks; from there, it goes into the log, once.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping

from scope_server.accounts.audit import Act, Audit
from scope_server.errors import StoreUnavailable
from scope_server.store.reading.database import Share
from scope_server.store.reading.queries import queries

_EVERY_S = 5.0
_AT_ONCE = 100  # acts in a transaction, while which other entries of the log wait
_log = logging.getLogger(__name__)


class Noticed:
    """Notes what is done without a request.

    Args:
        policy: what the server is set to keep, as JSON values by the settings' names; null: its default.
    """

    def __init__(self, database: Share, audit: Audit, policy: Mapping[str, int | None]) -> None:
        self._database, self._audit, self._policy = database, audit, dict(policy)

    async def run(self) -> None:
        """Notes the policy, and from then on what is done on machines, until cancelled."""
        told = False
        while True:
            try:
                if not told:
                    await self.note_policy()
                    told = True
                while await self.note_acts() == _AT_ONCE:
                    pass
            except StoreUnavailable as error:
                _log.info("entries of the audit log wait for the database", extra={"reason": str(error)})
            await asyncio.sleep(_EVERY_S)

    async def note_policy(self) -> None:
        """Notes the policy, unless it is the last that was noted.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(queries()["lock_audit"])  # another server may begin now, too
            found = await (await connection.execute(queries()["last_policy"])).fetchone()
            before = found["policy"] if found else None
            if before != self._policy:
                detail = {"from": before, "to": self._policy}
                await self._audit.append(
                    connection, Act("server", socket.gethostname(), "retention.change", "", detail)
                )

    async def note_acts(self) -> int:
        """Notes what was done on machines, the oldest first; returns how many acts.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.connection() as connection, connection.transaction():
            found = await (await connection.execute(queries()["take_acts"], {"most": _AT_ONCE})).fetchall()
            for act in found:
                given = (act[name] for name in ("actor", "address", "act", "object", "detail"))
                await self._audit.append(connection, Act(*given))
        return len(found)
