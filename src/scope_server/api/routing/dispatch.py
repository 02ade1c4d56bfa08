"""Serves a route: request → models → handler → answer."""

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel

from scope_server.api.routing.admission import CALLER
from scope_server.api.routing.call import Call
from scope_server.api.routing.input import body, parameters
from scope_server.api.routing.models import Answer, Text
from scope_server.api.routing.route import Route
from scope_server.api.routing.validation import Part, validated
from scope_server.errors import InvalidQuery, UnknownThing


def handler_of(route: Route) -> Handler:
    """aiohttp's handler of a route. Its caller was admitted before."""

    async def serve(request: web.Request) -> web.Response:
        given: dict[str, BaseModel] = {
            "query": validated(route.query, parameters(request), Part.QUERY),
            "path": _path(route, request),
        }
        if route.method == "POST":
            given["body"] = validated(route.body, await body(request), Part.BODY)
        call = Call(request[CALLER], request.app, request.remote or "", request.headers.get("Accept", ""))
        answer = await route.handler(call, **{name: given[name] for name in route.given})
        return _response(answer, route.status)

    return serve


def _path(route: Route, request: web.Request) -> BaseModel:
    try:
        return validated(route.path_model, request.match_info, Part.PATH)
    except InvalidQuery as error:
        raise UnknownThing(str(error)) from None  # nothing has such a name


def _response(answer: Answer, status: int) -> web.Response:
    if isinstance(answer, Text):
        return web.Response(body=answer.content, headers={"Content-Type": answer.content_type}, status=status)
    content = answer.model_dump_json(by_alias=True).encode()
    return web.Response(body=content, content_type="application/json", charset="utf-8", status=status)
