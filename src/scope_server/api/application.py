"""The API and the console as an aiohttp application."""

from collections.abc import Collection, Sequence

from aiohttp import web

from scope_server.api.console import PATHS, Console
from scope_server.api.context import DESCRIBED, LATENCIES
from scope_server.api.openapi import Described
from scope_server.api.routing import headers
from scope_server.api.routing.admission import admit
from scope_server.api.routing.callers import Authenticate
from scope_server.api.routing.cross_origin import CrossOrigin
from scope_server.api.routing.dispatch import handler_of
from scope_server.api.routing.input import BODY_BYTES
from scope_server.api.routing.latencies import Latencies
from scope_server.api.routing.problems import explain
from scope_server.api.routing.proxies import Proxies
from scope_server.api.routing.route import Route
from scope_server.api.table import TABLE
from scope_server.limits import Limits

_METHODS = {"GET": ("GET", "HEAD"), "POST": ("POST",)}


def application(
    authenticate: Authenticate, limits: Limits, origins: Collection[str] = (), proxies: Sequence[str] = ()
) -> web.Application:
    """All routes. The caller sets the keys in `context`.

    Args:
        origins: of other pages that may call the API.
        proxies: addresses or networks of reverse proxies.
    """
    registered: dict[web.AbstractRoute, Route] = {}
    public: set[web.AbstractRoute] = set()
    cross_origin, latencies = CrossOrigin(origins), Latencies(registered)
    made = web.Application(
        middlewares=[
            Proxies(proxies).resolve,
            latencies.measure,
            cross_origin.preflight(),
            explain,
            admit(authenticate, registered, public, limits),
        ],
        client_max_size=BODY_BYTES,
    )
    made.on_response_prepare.extend((headers.on_prepare, cross_origin.on_prepare))
    made[DESCRIBED], made[LATENCIES] = Described(TABLE), latencies
    for route in TABLE:
        handler = handler_of(route)
        for method in _METHODS[route.method]:
            registered[made.router.add_route(method, route.path, handler)] = route
    console = Console()
    public.update(made.router.add_route(method, PATHS, console.serve) for method in _METHODS["GET"])
    return made
