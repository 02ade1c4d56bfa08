"""Answers errors as problem documents (RFC 9457)."""

import logging
import math

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, Field

from scope_server.errors import (
    AgentRefused,
    AgentUnavailable,
    Fault,
    Forbidden,
    InvalidMessage,
    InvalidQuery,
    NotAuthenticated,
    NotHealthy,
    NotOurs,
    QueryTooSlow,
    Rejected,
    StoreUnavailable,
    TooManyRequests,
    UnknownThing,
    WrongRequest,
)

log = logging.getLogger(__name__)

MEDIA = "application/problem+json"

_STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (InvalidQuery, 400, "Bad request"),
    (InvalidMessage, 400, "Bad request"),
    (AgentRefused, 400, "Refused by the agent"),
    (NotAuthenticated, 401, "Unauthorized"),
    (Forbidden, 403, "Forbidden"),
    (UnknownThing, 404, "Not found"),
    (NotOurs, 409, "Not possible on the server"),
    (Rejected, 409, "Cannot be stored"),
    (TooManyRequests, 429, "Too many requests"),
    (AgentUnavailable, 503, "The agent cannot be reached"),
    (StoreUnavailable, 503, "The database cannot be reached"),
    (NotHealthy, 503, "Not healthy"),
    (QueryTooSlow, 504, "The query takes too long"),
)


class WrongPart(BaseModel):
    """A wrong parameter or field."""

    detail: str
    parameter: str | None = Field(None, description="the name of a parameter")
    pointer: str | None = Field(None, description="a JSON pointer to a field of the body, such as #/target/pid")


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    status: int
    title: str
    detail: str = Field(description="what is wrong, and the remedy")
    errors: list[WrongPart] = Field([], description="the wrong parameters and fields, if these are the problem")


def problem(status: int, title: str, detail: str, faults: tuple[Fault, ...] = ()) -> web.Response:
    """A problem document."""
    errors = [
        WrongPart(
            detail=each.detail,
            parameter=each.parameter or None,
            pointer=f"#{each.pointer}" if each.pointer else None,
        )
        for each in faults
    ]
    body = Problem(status=status, title=title, detail=detail, errors=errors)
    return web.Response(body=body.model_dump_json(exclude_none=True).encode(), status=status, content_type=MEDIA)


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
                answer = problem(status, title, str(error), error.faults if isinstance(error, WrongRequest) else ())
                answer.headers.update(_headers(error))
                return answer
        log.exception("a request failed", extra={"path": request.path})
        return problem(500, "Internal error", "the server failed; see its log")


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, NotAuthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(math.ceil(error.wait_s))} if isinstance(error, TooManyRequests) else {}


def _told(error: web.HTTPException) -> web.Response:
    answer = problem(error.status, error.reason, error.text or error.reason)
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer
