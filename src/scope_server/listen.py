"""Opens the server's ports. If a killed server has just used a port, waits until it is free."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import grpc
from aiohttp import web

from scope_server.api.serving import Runner
from scope_server.errors import AddressTaken
from scope_wire.addresses import address as address_of
from scope_wire.addresses import loopback_address
from scope_wire.channel import server_options

_WAIT_S = 5.0
_AGAIN_S = 0.2
_GRACE_S = 1.0  # for open streams, when the server stops


async def serve_http(application: web.Application, address: str, cleanup: AsyncExitStack) -> str:
    """Serves the API at host:port until `cleanup`; returns the address.

    Raises:
        AddressTaken: another program listens there.
    """
    host, port = loopback_address(address, "http")
    runner = Runner(application)
    await runner.setup()
    cleanup.push_async_callback(runner.cleanup)

    async def listen() -> str:
        site = web.TCPSite(runner, host, port, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            await site.stop()
            raise AddressTaken("the API", address, error.strerror or str(error)) from None
        return f"{host}:{runner.addresses[0][1]}"

    return await _patiently(listen)


async def serve_grpc(
    purpose: str,
    add: Callable[[grpc.aio.Server], None],
    address: str,
    credentials: Callable[[], grpc.ServerCredentials],
    cleanup: AsyncExitStack,
    *,
    calls: int,
) -> str:
    """Serves agents at host:port until `cleanup`, with at most `calls` calls at a time; returns the address.

    Args:
        purpose: name of the setting.
        add: adds the service to the server.
        credentials: makes the server's credentials; gRPC uses an object up even if the port is taken.

    Raises:
        AddressTaken: another program listens there.
    """
    host, _ = address_of(address, purpose)

    async def listen() -> str:
        server = grpc.aio.server(options=server_options(), maximum_concurrent_rpcs=calls)
        add(server)
        try:
            port = server.add_secure_port(address, credentials())
        except RuntimeError as error:
            raise AddressTaken(purpose, address, str(error)) from None
        await server.start()
        cleanup.push_async_callback(server.stop, _GRACE_S)
        return f"{host}:{port}"

    return await _patiently(listen)


async def _patiently(listen: Callable[[], Awaitable[str]]) -> str:
    loop = asyncio.get_running_loop()
    end = loop.time() + _WAIT_S
    while True:
        try:
            return await listen()
        except AddressTaken:
            if loop.time() > end:
                raise
            await asyncio.sleep(_AGAIN_S)
