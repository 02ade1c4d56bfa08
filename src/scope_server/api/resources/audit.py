"""The audit log."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from scope_server.accounts.caller import Role
from scope_server.api.context import ACCOUNTS
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Number, Whole
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.api.routing.tables import Table, TableQuery, flat

ROUTES = Routes()

MOST = 1000
_Json = Annotated[Any, WithJsonSchema({"type": ["object", "array", "string", "number", "boolean", "null"]})]


class AuditQuery(TableQuery):
    """Which entries."""

    before: Number | None = Field(None, description="only entries with a smaller number")
    limit: Whole = Field(100, ge=1, le=MOST)


class AuditEntry(Answer):
    """What somebody did."""

    number: int
    time: datetime
    actor: str
    address: str
    act: str
    object: str
    detail: dict[str, _Json] = Field(description="what was asked, without secrets")


class AuditEntries(Table):
    """Entries, the newest first."""

    ROW = AuditEntry
    entries: list[AuditEntry]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The entries."""
        return map(flat, self.entries)


class AuditVerdict(Answer):
    """Whether the log is as it was written."""

    entries: int = Field(description="how many are right, from the first on")
    digest: str = Field(description="of the last of them; note it elsewhere, to be compared with later")
    fault: str = Field(description="what is wrong with the next one; empty: nothing")


@ROUTES.get(f"{PREFIX}/audit", Role.ADMIN)
async def get_audit(call: Call, query: AuditQuery) -> AuditEntries:
    """What was done: each start and stop, login, token, change of accounts, machines, and of what is kept."""
    rows = await call[ACCOUNTS].audit.before(query.before, query.limit)
    return AuditEntries(entries=[AuditEntry(**row) for row in rows])


@ROUTES.get(f"{PREFIX}/audit/verdict", Role.ADMIN)
async def verify_audit(call: Call) -> AuditVerdict:
    """Check the whole log: a removed or changed entry shows."""
    verdict = await call[ACCOUNTS].audit.verify()
    return AuditVerdict(entries=verdict.entries, digest=verdict.digest, fault=verdict.fault)
