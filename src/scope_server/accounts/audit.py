"""The log of what people did. Each entry has the digest of all before it, so that a removed or changed one shows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Json

from scope_server.store.reading.database import Connection, Database
from scope_server.store.reading.queries import queries

_PAGE = 1000  # entries read at a time


@dataclass(frozen=True)
class Act:
    """What somebody does.

    Attributes:
        actor: who does it; for a refused login, the name that was given.
        address: from where.
        act: such as `task.start`.
        object: to what.
        detail: what else there is to say: JSON values, no secrets.
    """

    actor: str
    address: str
    act: str
    object: str
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What `verify` found.

    Attributes:
        entries: how many are right, from the first on.
        digest: of the last of them, in hexadecimal digits.
        fault: what is wrong with the next one; empty: nothing.
    """

    entries: int
    digest: str
    fault: str


class Audit:
    """Appends entries one after the other, also those of several servers, and checks them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, act: Act) -> None:
        """Appends an entry.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.connection() as connection, connection.transaction():
            await self.append(connection, act)

    async def append(self, connection: Connection, act: Act) -> None:
        """Appends an entry within a transaction, which is the last thing that it does: others wait for it."""
        found = await (await connection.execute(queries()["lock_audit"])).fetchone()
        assert found is not None
        number, time = found["number"] + 1, datetime.now(UTC)
        detail = json.dumps(dict(act.detail), sort_keys=True, separators=(",", ":"))
        row: dict[str, Any] = {"actor": act.actor, "address": act.address, "act": act.act, "object": act.object}
        digest = _digest(found["digest"], number, time, row, detail)
        row |= {"number": number, "time": time, "digest": digest, "detail": Json(None, dumps=lambda _: detail)}
        await connection.execute(queries()["append_audit"], row)

    async def before(self, number: int | None, most: int) -> list[dict[str, Any]]:
        """At most so many entries, the newest first: those with a smaller number, or all.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        return list(await self._database.fetch("audit_before", {"number": number, "most": most}))

    async def verify(self) -> Verdict:
        """Checks all entries.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.snapshot() as connection:
            (head,) = await (await connection.execute(queries()["audit_head"])).fetchall()
            number, digest = 0, b""
            while page := await self._after(connection, number):
                for row in page:
                    right = _digest(digest, number + 1, row["time"], row, row["detail"])
                    if row["number"] != number + 1:
                        return Verdict(number, digest.hex(), f"entry {number + 1} is missing")
                    if row["digest"] != right:
                        return Verdict(number, digest.hex(), f"entry {number + 1} was changed")
                    number, digest = number + 1, right
        removed = head["number"] != number or head["digest"] != digest
        return Verdict(number, digest.hex(), f"entries after {number} are missing" if removed else "")

    async def _after(self, connection: Connection, number: int) -> list[dict[str, Any]]:
        found = await connection.execute(queries()["audit_after"], {"number": number, "most": _PAGE})
        return await found.fetchall()


def _digest(before: bytes, number: int, time: datetime, row: Mapping[str, Any], detail: str) -> bytes:
    of_row = (row[name] for name in ("actor", "address", "act", "object"))
    text = json.dumps([number, time.astimezone(UTC).isoformat(), *of_row, detail], ensure_ascii=True)
    return hashlib.sha256(before + text.encode()).digest()
