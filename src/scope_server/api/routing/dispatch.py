"""Serves a route: request → models → handler → answer."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel

from scope_server.accounts import csrf
from scope_server.api.context import ACCOUNTS, TABLES
from scope_server.api.routing.admission import CALLER
from scope_server.api.routing.call import Call
from scope_server.api.routing.compression import compress
from scope_server.api.routing.headers import AGE
from scope_server.api.routing.input import body, parameters, path_parameters
from scope_server.api.routing.models import Answer, Live, Streamed, Text
from scope_server.api.routing.noted import act_of, refused
from scope_server.api.routing.reads import answered
from scope_server.api.routing.route import Route, never
from scope_server.api.routing.tables import Table, TableQuery, file_of
from scope_server.api.routing.validation import Part, validated
from scope_server.api.routing.web_socket import asks_for_web_socket, talk
from scope_server.errors import InvalidQuery, ScopeServerError, UnknownThing

_AS_IT_COMES = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_log = logging.getLogger(__name__)


def handler_of(route: Route) -> Handler:
    """aiohttp's handler of a route. Its caller was admitted before."""

    async def serve(request: web.Request) -> web.StreamResponse:
        given: dict[str, BaseModel] = {
            "query": validated(route.query, parameters(request), Part.QUERY),
            "path": _path(route, request),
        }
        if route.method == "POST":
            given["body"] = validated(route.body, await body(request), Part.BODY)
        headers = request.headers
        call = Call(
            request[CALLER],
            request.app,
            request.remote or "",
            headers.get("Accept", ""),
            headers.get("User-Agent", ""),
            headers.get("Last-Event-ID", ""),
            asks_for_web_socket(request),
            request.cookies,
            headers.get(csrf.HEADER, ""),
        )
        asked = {name: given[name] for name in route.given}
        notes = route.audited and not route.notes_itself
        told: dict[str, str] = {}
        if notes:
            answer = await _audited(route, call, given, asked)
        elif route.lags is never:
            answer = await route.handler(call, **asked)
        else:
            answer, age_s = await answered(route, call, asked, _fresh(request))
            told[AGE] = f"{age_s:g}"
        query = given["query"]
        if isinstance(query, TableQuery) and query.format != "json" and isinstance(answer, Table):
            name = str(getattr(given["path"], "stream", route.name.partition("_")[2]))
            table = call[TABLES].get(name)
            stream = table.described if table else None
            answer = await asyncio.to_thread(file_of, answer, query.format, name, stream)
        if isinstance(answer, Streamed):
            return await _sent(request, answer, call.web_socket, told)
        response = _response(answer, route.status)
        await compress(response, headers.get("Accept-Encoding", ""))
        response.headers.update(told)
        for put in call.puts:
            put.into(response, request)
        return response

    return serve


def _fresh(request: web.Request) -> bool:
    """Whether only the primary may answer. A HEAD request reads no rows."""
    return request.method == "HEAD" or "no-cache" in request.headers.get("Cache-Control", "")


async def _sent(
    request: web.Request, answer: Streamed, web_socket: bool, told: Mapping[str, str]
) -> web.StreamResponse:
    if not (web_socket and isinstance(answer, Live)):
        return await _stream(request, answer, told)
    async with aclosing(answer.pieces) as pieces:
        try:
            return await talk(request, pieces)
        except ConnectionError:
            _log.debug("a caller went away", extra={"path": request.path})
            raise


async def _stream(request: web.Request, answer: Streamed, told: Mapping[str, str]) -> web.StreamResponse:
    """Sends the pieces as fast as the caller takes them. One that goes away ends them.

    An error before the first piece is a problem document; a later one breaks the connection, so that the caller knows.
    """
    headers = {**answer.headers, "Content-Type": answer.content_type, **_AS_IT_COMES, **told}
    if answer.filename:
        headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
    response = web.StreamResponse(headers=headers)
    async with aclosing(answer.pieces) as pieces:
        first = await anext(pieces, b"") if request.method != "HEAD" else b""
        await response.prepare(request)
        try:
            if request.method != "HEAD":
                await response.write(first)
                async for piece in pieces:
                    await response.write(piece)
        except ConnectionError:
            _log.debug("a caller went away", extra={"path": request.path})
        except ScopeServerError as error:
            _log.warning("an answer was broken off", extra={"path": request.path, "reason": str(error)})
            if request.transport:
                request.transport.abort()
    return response


async def _audited(route: Route, call: Call, given: Mapping[str, BaseModel], asked: Mapping[str, BaseModel]) -> Answer:
    audit, act = call[ACCOUNTS].audit, act_of(route, call, given)
    await audit.note(act)
    try:
        return await route.handler(call, **asked)
    except Exception as error:
        await audit.note(refused(act, error))
        raise


def _path(route: Route, request: web.Request) -> BaseModel:
    try:
        return validated(route.path_model, path_parameters(request), Part.PATH)
    except InvalidQuery as error:
        raise UnknownThing(str(error), faults=error.faults) from None  # nothing has such a name


def _response(answer: Answer, status: int) -> web.Response:
    if isinstance(answer, Text):
        headers = {**answer.headers, "Content-Type": answer.content_type}
        return web.Response(body=answer.content, headers=headers, status=status)
    content = answer.model_dump_json(by_alias=True).encode()
    return web.Response(body=content, content_type="application/json", charset="utf-8", status=status)
