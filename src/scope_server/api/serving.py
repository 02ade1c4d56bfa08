"""Serves the application over HTTP, so that a request that cannot be read is also answered with a problem document."""

import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from scope_server.api.problems import problem

log = logging.getLogger(__name__)

IDLE_S = 75.0  # for a connection without a whole request; longer than a proxy before the server keeps an idle one
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
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    __slots__ = ()

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
        answer.force_close()
        return answer
