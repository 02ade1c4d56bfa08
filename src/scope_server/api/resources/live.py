"""What is stored, as it is stored: server-sent events (HTML Standard, 9.2)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, ClassVar

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import HUB
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.streams import StreamPath, stream_named
from scope_server.api.resources.window import Filter, condition_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Moment, NodeName, Parameters, Streamed
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import ScopeServerError
from scope_server.live.viewer import Seen
from scope_server.store.reading.by_commit import place_of
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Order

ROUTES = Routes()

_MEDIA = "text/event-stream"
_BEGIN = b"retry: 2000\n\n"
_QUIET_S = 15.0  # after which a comment is sent, so that both ends know of a broken connection
_COMMENT = b": nothing new\n\n"


class LiveQuery(Parameters):
    """Which rows."""

    where: Filter | None = None
    since: Annotated[Moment, Field(description="begins with the rows since then; else with those of now")] | None = None
    machine: NodeName | None = None
    cursor: Annotated[str, Field(description="goes on after this; so does the header Last-Event-ID")] | None = None


class Events(Streamed):
    """Events: `rows` (a list, as in /events), `missed` (how many events a slow viewer does not get), `problem`."""

    MEDIA: ClassVar[tuple[str, ...]] = (_MEDIA,)
    content_type: str = _MEDIA


@ROUTES.get(f"{PREFIX}/live/{{stream}}", Role.VIEWER)
async def watch_events(call: Call, path: StreamPath, query: LiveQuery) -> Events:
    """Rows of a stream as they are stored, each once. A reconnect with the last id misses and repeats nothing."""
    table = stream_named(call, path)
    cursor = call.last_event or query.cursor or ""
    if cursor:
        place_of(cursor)
    wanted = EventQuery(
        table,
        condition_of(query.where, table),
        since=query.since,
        machines=await machines_named(call, query.machine),
        order=Order.STORED,
        limit=MOST_ROWS,
        cursor=cursor,
    )
    return Events(pieces=_events(call[HUB].watch(wanted)))


async def _events(seen: AsyncGenerator[Seen, None]) -> AsyncGenerator[bytes, None]:
    yield _BEGIN
    async with aclosing(seen):
        following = asyncio.ensure_future(anext(seen))
        try:
            while True:
                done, _ = await asyncio.wait({following}, timeout=_QUIET_S)
                if not done:
                    yield _COMMENT
                    continue
                piece = following.result()
                following = asyncio.ensure_future(anext(seen))
                yield _told(piece)
        except ScopeServerError as error:
            yield f"event: problem\ndata: {json.dumps({'detail': str(error)})}\n\n".encode()
        finally:
            following.cancel()
            await asyncio.wait({following})


def _told(piece: Seen) -> bytes:
    missed = f'event: missed\ndata: {{"events": {piece.missed}}}\n\n' if piece.missed else ""
    return f"{missed}event: rows\nid: {piece.place.cursor()}\ndata: [{','.join(piece.rows)}]\n\n".encode()
