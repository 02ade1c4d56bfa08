"""An answer over a WebSocket (RFC 6455): each piece is a message. What the caller says there is not read."""

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

from aiohttp import web

from scope_server.errors import Forbidden

_HEARTBEAT_S = 15.0  # between pings, so that both ends know of a broken connection
_LONGEST = 1024  # bytes of a message of the caller


def asks_for_web_socket(request: web.Request) -> bool:
    """Whether a request asks for a WebSocket.

    Raises:
        Forbidden: a page of another origin does. Browsers send cookies with it, and let the page read what comes.
    """
    if request.method != "GET" or not web.WebSocketResponse().can_prepare(request).ok:
        return False
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Forbidden("a WebSocket is only for pages of this server, and for programs, which send no Origin")
    return True


async def talk(request: web.Request, pieces: AsyncGenerator[bytes, None]) -> web.WebSocketResponse:
    """Sends the pieces as fast as the caller takes them, until it closes the WebSocket or they end."""
    socket = web.WebSocketResponse(heartbeat=_HEARTBEAT_S, max_msg_size=_LONGEST)
    await socket.prepare(request)
    work = [asyncio.create_task(_send(socket, pieces)), asyncio.create_task(_listen(socket))]
    try:
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in work:
            one.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await socket.close()
    return socket


async def _send(socket: web.WebSocketResponse, pieces: AsyncGenerator[bytes, None]) -> None:
    async for piece in pieces:
        if piece:
            await socket.send_str(piece.decode())


async def _listen(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass
