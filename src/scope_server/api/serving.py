"""Serves the application over HTTP, so that a request that cannot be read is also answered with a problem document.

Connections are bounded. Of too many, the oldest one that has sent no whole request is closed, so that peers that send
nothing, or slowly, keep nobody away. If all have requests, the new one is answered with the reason.
"""

import asyncio
import logging
import time
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from scope_server.api.routing.headers import secure
from scope_server.api.routing.problems import problem

log = logging.getLogger(__name__)

IDLE_S = 75.0  # for a connection without a whole request; longer than a proxy before the server keeps an idle one
MOST_CONNECTIONS = 1000
_SAY_S = 10.0  # time between lines of the log about too many connections
LINE_BYTES = 64 << 10  # a filter of the greatest length, each character escaped


class Runner(web.AppRunner):
    """Runs the API's application."""

    def __init__(self, application: web.Application) -> None:
        # The API refuses compressed bodies; if aiohttp decompressed them, a damaged one would become a server error.
        super().__init__(
            application,
            access_log=None,
            auto_decompress=False,
            max_line_size=LINE_BYTES,
            keepalive_timeout=IDLE_S,
        )

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made.request_handler, request_factory=made.request_factory, **self._kwargs)


class _Server(web.Server):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open: dict[web.RequestHandler, None] = {}  # oldest first
        self._said = -_SAY_S

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Makes room for a new connection, or has its request refused."""
        super().connection_made(handler, transport)
        if len(self._open) >= MOST_CONNECTIONS:
            waiting = (one for one in self._open if isinstance(one, _Connection) and one.has_no_request)
            if oldest := next(waiting, None):
                del self._open[oldest]
                oldest.force_close()
            elif isinstance(handler, _Connection):
                handler.refuse()
            self._say()
        self._open[handler] = None

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forgets a connection."""
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)

    def _say(self) -> None:
        if time.monotonic() >= self._said + _SAY_S:
            self._said = time.monotonic()
            log.warning("too many connections to the API", extra={"most": MOST_CONNECTIONS})


class _Connection(web.RequestHandler):
    __slots__ = ()

    @property
    def has_no_request(self) -> bool:
        """Whether no whole request has come since the last one was answered."""
        request = self._current_request
        return request is None or not request.content.is_eof()

    def refuse(self) -> None:
        """Has the request answered with the reason why it is not served."""
        self._request_handler = _refused

    def handle_error(
        self, request: Any, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to what is not a valid HTTP request."""
        if status >= 500 or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        detail = "the request is not valid HTTP"
        if isinstance(exc, LineTooLong):
            detail = f"the address or a header has more than {exc.args[1]} bytes; shorten the parameters"
        log.info("refused what is no request", extra={"peer": request.remote, "reason": detail})
        answer = problem(status, "Bad request", detail)
        secure(answer)
        answer.force_close()
        return answer


async def _refused(_: web.BaseRequest) -> web.StreamResponse:
    detail = f"the server answers {MOST_CONNECTIONS:,} requests at the moment, and takes no more; try again in a minute"
    answer = problem(503, "Too many connections", detail)
    answer.headers["Retry-After"] = "60"
    secure(answer)
    answer.force_close()
    return answer
