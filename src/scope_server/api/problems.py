"""Answers errors as problem documents (RFC 9457), and checks the token."""

import logging
from collections.abc import Awaitable, Callable, Collection

from aiohttp import web
from aiohttp.typedefs import Middleware

from scope_server.errors import (
    AgentRefused,
    AgentUnavailable,
    InvalidMessage,
    InvalidQuery,
    NotOurs,
    Rejected,
    StoreUnavailable,
    UnknownThing,
)
from scope_wire.token import shows

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (InvalidQuery, 400, "Bad request"),
    (InvalidMessage, 400, "Bad request"),
    (AgentRefused, 400, "Refused by the agent"),
    (UnknownThing, 404, "Not found"),
    (NotOurs, 409, "Not possible on the server"),
    (Rejected, 409, "Cannot be stored"),
    (AgentUnavailable, 503, "The agent cannot be reached"),
    (StoreUnavailable, 503, "The database cannot be reached"),
)


def problem(status: int, title: str, detail: str) -> web.Response:
    """A problem document."""
    body = {"status": status, "title": title, "detail": detail}
    return web.json_response(body, status=status, content_type="application/problem+json")


def require_token(token: str, but_not: Collection[str]) -> Middleware:
    """Refuses requests without the token, but for these paths."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in but_not or shows(request.headers.get("Authorization"), token):
            return await handler(request)
        refusal = problem(
            401,
            "Unauthorized",
            "the token is missing or wrong; send -H 'Authorization: Bearer TOKEN' (from the token file)",
        )
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return refusal

    return check


@web.middleware
async def explain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors into problem documents. Unexpected errors are logged; their answer has no details."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _told(error)
    except Exception as error:
        for kind, status, title in _STATUS:
            if isinstance(error, kind):
                return problem(status, title, str(error))
        log.exception("a request failed", extra={"path": request.path})
        return problem(500, "Internal error", "the server failed; see its log")


def _told(error: web.HTTPException) -> web.Response:
    answer = problem(error.status, error.reason, error.text or error.reason)
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer
