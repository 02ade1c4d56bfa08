"""What is stored, as it is stored: server-sent events (HTML Standard, 9.2), or messages of a WebSocket."""

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
from scope_server.api.resources.window import Filter, TaskId, condition_of, of_task
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Live, Moment, NodeName, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import ScopeServerError
from scope_server.live.viewer import Seen
from scope_server.store.reading.by_commit import place_of
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Order

ROUTES = Routes()

_MEDIA = "text/event-stream"
_QUIET_S = 15.0  # after which a comment is sent, so that both ends know of a broken connection


class _ServerEvents:
    """What is sent as server-sent events."""

    BEGIN, QUIET = b"retry: 2000\n\n", b": nothing new\n\n"

    @staticmethod
    def told(seen: Seen) -> bytes:
        """Rows, and before them how many are missed."""
        missed = f'event: missed\ndata: {{"events": {seen.missed}}}\n\n' if seen.missed else ""
        return f"{missed}event: rows\nid: {seen.place.cursor()}\ndata: [{','.join(seen.rows)}]\n\n".encode()

    @staticmethod
    def problem(error: ScopeServerError) -> bytes:
        """Why the answer ends."""
        return f"event: problem\ndata: {json.dumps({'detail': str(error)})}\n\n".encode()


class _Messages:
    """What is sent over a WebSocket, whose pings tell that it lives: a JSON object a message."""

    BEGIN, QUIET = b"", b""

    @staticmethod
    def told(seen: Seen) -> bytes:
        """Rows, and how many before them are missed."""
        cursor = json.dumps(seen.place.cursor())
        return f'{{"rows": [{",".join(seen.rows)}], "cursor": {cursor}, "missed": {seen.missed}}}'.encode()

    @staticmethod
    def problem(error: ScopeServerError) -> bytes:
        """Why the answer ends."""
        return json.dumps({"problem": str(error)}).encode()


class LiveQuery(Parameters):
    """Which rows."""

    where: Filter | None = None
    since: Annotated[Moment, Field(description="begins with the rows since then; else with those of now")] | None = None
    machine: NodeName | None = None
    task: TaskId | None = None
    cursor: Annotated[str, Field(description="goes on after this; so does the header Last-Event-ID")] | None = None


class Events(Live):
    """Events: `rows` (a list, as in /events), `missed` (how many events a slow viewer does not get), `problem`."""

    MEDIA: ClassVar[tuple[str, ...]] = (_MEDIA,)
    content_type: str = _MEDIA


@ROUTES.get(f"{PREFIX}/live/{{stream}}", Role.VIEWER)
async def watch_events(call: Call, path: StreamPath, query: LiveQuery) -> Events:
    """Rows of a stream as they are stored, each once. A reconnect with the last id misses and repeats nothing.

    Over a WebSocket, each message is a JSON object: `rows`, the `cursor` after them and how many events before them are
    `missed`; or the `problem` that ends it. Pages of other origins are refused.
    """
    table = stream_named(call, path)
    cursor = call.last_event or query.cursor or ""
    if cursor:
        place_of(cursor)
    task, machines = await of_task(call, query.task, await machines_named(call, query.machine))
    wanted = EventQuery(
        table,
        condition_of(query.where, table),
        since=query.since,
        machines=machines,
        task=task,
        order=Order.STORED,
        limit=MOST_ROWS,
        cursor=cursor,
    )
    return Events(pieces=_events(call[HUB].watch(wanted), _Messages if call.web_socket else _ServerEvents))


async def _events(
    seen: AsyncGenerator[Seen, None], form: type[_ServerEvents | _Messages]
) -> AsyncGenerator[bytes, None]:
    yield form.BEGIN
    async with aclosing(seen):
        following = asyncio.ensure_future(anext(seen))
        try:
            while True:
                done, _ = await asyncio.wait({following}, timeout=_QUIET_S)
                if not done:
                    yield form.QUIET
                    continue
                piece = following.result()
                following = asyncio.ensure_future(anext(seen))
                yield form.told(piece)
        except ScopeServerError as error:
            yield form.problem(error)
        finally:
            following.cancel()
            await asyncio.wait({following})
