"""Records that could not be stored: list, retry, delete."""

import asyncio
from datetime import datetime

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import QUARANTINE
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Parameters, Whole
from scope_server.api.routing.route import PREFIX, Routes

ROUTES = Routes()

MOST = 1000
_LARGEST_ID = (1 << 63) - 1


class QuarantineQuery(Parameters):
    """How many records."""

    limit: Whole = Field(100, ge=1, le=MOST)


class EntryPath(Parameters):
    """Which record."""

    id: Whole = Field(ge=1, le=_LARGEST_ID)


class Entry(Answer):
    """A record that could not be stored."""

    id: int
    run_id: str
    machine_id: str
    hostname: str
    stream: str | None = Field(description="null if the record is no batch")
    sequence: int | None
    events: int = Field(description="events that count as lost at `ingest`")
    code: str = Field(description="the reason under which they count")
    reason: str
    received: datetime
    bytes: int
    kept: bool = Field(description="whether the record was kept, so that it can be retried")


class Entries(Answer):
    """Records that could not be stored."""

    quarantine: list[Entry]


class Stored(Answer):
    """The record is stored."""

    stored: bool


class Dropped(Answer):
    """The record is deleted."""

    dropped: bool


@ROUTES.get(f"{PREFIX}/quarantine", Role.OPERATOR)
async def get_quarantine(call: Call, query: QuarantineQuery) -> Entries:
    """Records that could not be stored, newest first: their run, the reason, and whether the record was kept."""
    entries = await asyncio.to_thread(call[QUARANTINE].entries, query.limit)
    return Entries(quarantine=[Entry.model_validate(entry, from_attributes=True) for entry in entries])


@ROUTES.post(f"{PREFIX}/quarantine/{{id}}/retry", Role.OPERATOR, audited="quarantine.retry")
async def retry_record(call: Call, path: EntryPath) -> Stored:
    """Try again to store a record. On success, its events no longer count as lost."""
    await asyncio.to_thread(call[QUARANTINE].retry, path.id)
    return Stored(stored=True)


@ROUTES.post(f"{PREFIX}/quarantine/{{id}}/drop", Role.ADMIN, audited="quarantine.drop")
async def drop_record(call: Call, path: EntryPath) -> Dropped:
    """Delete a record. Its events stay counted as lost."""
    await asyncio.to_thread(call[QUARANTINE].drop, path.id)
    return Dropped(dropped=True)
