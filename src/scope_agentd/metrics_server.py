"""Serves /metrics and /health over HTTP: one request a connection, in the agent's event loop.

/health needs no certificate: it answers also when the agent's own has expired, and nobody can ask gRPC's.

A connection takes no thread, and is closed if its request is not there in time. Of too many connections, the oldest is
closed: connections that send nothing keep no scrape away.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from scope_agentd.errors import PortTaken
from scope_wire.endpoint import Endpoint

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
REQUEST_S = 10.0  # for all of a connection
_HEAD_BYTES = 16 << 10  # of a request


class MetricsServer:
    """Answers `GET /metrics` with the metrics of a registry, and `GET /health` with 200, or 503 and the reason.

    Args:
        trouble: tells why the agent is not healthy; empty: it is.
    """

    def __init__(self, registry: CollectorRegistry, trouble: Callable[[], str]) -> None:
        self._registry, self._trouble = registry, trouble
        self._scraping = asyncio.Lock()  # one scrape at a time needs one thread
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # oldest first
        self._server: asyncio.Server | None = None

    async def start(self, address: str) -> int:
        """Listens at host:port; returns the port.

        Raises:
            PortTaken: another program listens there.
        """
        at = Endpoint.parse_loopback(address, "metrics")
        try:
            self._server = await asyncio.start_server(self._serve, at.host, at.port, limit=_HEAD_BYTES)
        except OSError as error:
            raise PortTaken(f"cannot listen on {address}: {error.strerror}; choose another with --metrics") from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Closes the port and all connections."""
        if self._server:
            self._server.close()
        serving = list(self._open)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        if len(self._open) >= MOST_CONNECTIONS:
            self._open.pop(next(iter(self._open))).transport.abort()
        self._open[task] = writer
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(REQUEST_S):
                    writer.write(await self._answer(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        finally:
            self._open.pop(task, None)
            writer.close()

    async def _answer(self, request: bytes) -> bytes:
        first, *lines = request.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.split(" ")[0].partition("?")[0]
        if path not in ("/metrics", "/health"):
            return _response(HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics and /health\n")
        if method != "GET":
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"use GET\n")
        if path == "/health":
            trouble = self._trouble()
            status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
            return _response(status, "text/plain; charset=utf-8", f"{trouble or 'healthy'}\n".encode())
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        encode, content_type = choose_encoder(headers.get("accept", ""))
        async with self._scraping:
            try:
                body = await asyncio.to_thread(encode, self._registry)
            except Exception:
                log.exception("the metrics cannot be collected")
                return _response(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"see the agent's log\n")
        return _response(HTTPStatus.OK, content_type, body)


def _response(status: HTTPStatus, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
