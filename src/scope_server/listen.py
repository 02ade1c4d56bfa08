"""Opens the server's ports. If a killed server has just used a port, waits until it is free."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
from aiohttp import web

from scope_server.api.serving import Runner
from scope_server.errors import AddressTaken
from scope_wire.calls import BOUNDS, BoundCalls
from scope_wire.channel import Options, listen, server_options
from scope_wire.endpoint import Endpoint
from scope_wire.https import serving
from scope_wire.keys import Credentials
from scope_wire.unix_socket import listening

_WAIT_S = 5.0
_AGAIN_S = 0.2
_GRACE_S = 1.0  # for open streams, when the server stops
_STRANGER_S = 15.0  # a connection without a certificate gets no new calls after this time, and is cut after twice of it
_STRANGER_CALLS = 4  # at a time, on such a connection


async def serve_http(
    application: web.Application, at: Endpoint, local: Path, own: Callable[[], Credentials], cleanup: AsyncExitStack
) -> Endpoint:
    """Serves the API until `cleanup`, with HTTPS unless only this machine reaches it; returns the endpoint with its
    port.

    Args:
        local: a Unix socket, at which it is served, too.
        own: the server's credentials, asked at each handshake.

    Raises:
        AddressTaken: another program listens there.
    """
    runner = Runner(application)
    await runner.setup()
    cleanup.push_async_callback(runner.cleanup)
    tls = None if at.is_loopback else serving(own)

    async def begin() -> Endpoint:
        site = web.TCPSite(runner, at.host, at.port, reuse_address=True, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await site.stop()
            raise AddressTaken("the API", str(at), error.strerror or str(error)) from None
        return at.at(port=runner.addresses[0][1])

    found = await _patiently(begin)
    try:
        local.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await web.SockSite(runner, listening(local)).start()
    except OSError as error:
        raise AddressTaken("the API", str(local), error.strerror or str(error)) from None
    cleanup.callback(local.unlink, missing_ok=True)
    return found


async def serve_grpc(
    purpose: str,
    add: Callable[[grpc.aio.Server], None],
    at: Endpoint,
    cleanup: AsyncExitStack,
    *,
    calls: int,
    bound: BoundCalls | None,
) -> Endpoint:
    """Serves agents until `cleanup`, with at most `calls` calls at a time; returns the endpoint with its port.

    Connections of clients that need no certificate are closed after a while, so that unfinished calls do not add up.

    Args:
        purpose: name of the setting.
        add: adds the service to the server.
        bound: of the calls of each certificate; None: clients need none.

    Raises:
        AddressTaken: another program listens there.
    """

    async def begin() -> Endpoint:
        options = [*server_options(), *(BOUNDS if bound else _of_strangers())]
        server = grpc.aio.server(interceptors=[bound] if bound else [], options=options, maximum_concurrent_rpcs=calls)
        add(server)
        try:
            found = listen(server, at, of_clients=bound is not None)
        except OSError as error:
            raise AddressTaken(purpose, str(at), str(error)) from None
        await server.start()
        cleanup.push_async_callback(server.stop, _GRACE_S)
        return found

    return await _patiently(begin)


def _of_strangers() -> Options:
    """Calls whose message never ends hold their places no longer than this."""
    age_ms = int(1000 * _STRANGER_S)
    return [
        ("grpc.max_connection_age_ms", age_ms),
        ("grpc.max_connection_age_grace_ms", age_ms),
        ("grpc.max_concurrent_streams", _STRANGER_CALLS),
    ]


async def _patiently(begin: Callable[[], Awaitable[Endpoint]]) -> Endpoint:
    loop = asyncio.get_running_loop()
    end = loop.time() + _WAIT_S
    while True:
        try:
            return await begin()
        except AddressTaken:
            if loop.time() > end:
                raise
            await asyncio.sleep(_AGAIN_S)
