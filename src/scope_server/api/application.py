"""The API as an aiohttp application."""

from aiohttp import web

from scope_server.api.context import DESCRIBED
from scope_server.api.openapi import Described
from scope_server.api.routing.admission import admit
from scope_server.api.routing.callers import Authenticate
from scope_server.api.routing.dispatch import handler_of
from scope_server.api.routing.input import BODY_BYTES
from scope_server.api.routing.problems import explain
from scope_server.api.routing.route import Route
from scope_server.api.table import TABLE

_METHODS = {"GET": ("GET", "HEAD"), "POST": ("POST",)}


def application(authenticate: Authenticate) -> web.Application:
    """All routes. The caller sets the keys in `context`."""
    registered: dict[web.AbstractRoute, Route] = {}
    made = web.Application(middlewares=[explain, admit(authenticate, registered)], client_max_size=BODY_BYTES)
    made[DESCRIBED] = Described(TABLE)
    for route in TABLE:
        handler = handler_of(route)
        for method in _METHODS[route.method]:
            registered[made.router.add_route(method, route.path, handler)] = route
    return made
