"""Calls by pages of other origins (CORS): none, but those of configured ones, which show a token. Cookies never
count."""

from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scope_server.api.routing.headers import AGE

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Cache-Control, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


class CrossOrigin:
    """Allows pages of these origins to read answers."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    async def on_prepare(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Tells the browser that the page may read the answer."""
        if self._origins:
            answer.headers.add("Vary", "Origin")
        if request.headers.get("Origin") in self._origins:
            answer.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            answer.headers["Access-Control-Expose-Headers"] = f"Retry-After, {AGE}"

    def preflight(self) -> Middleware:
        """Answers a browser that asks before a call."""

        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            asks = request.method == "OPTIONS" and request.headers.get("Origin") in self._origins
            return web.Response(status=204, headers=_PREFLIGHT) if asks else await handler(request)

        return answer
