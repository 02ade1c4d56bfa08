"""Who may call, and how often: the one place that turns a request into a caller, or refuses it."""

from collections.abc import Mapping, Set

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scope_server.accounts.caller import Caller, Role
from scope_server.api.routing.callers import ANYONE, Authenticate
from scope_server.api.routing.rates import OPEN
from scope_server.api.routing.route import Route
from scope_server.errors import Forbidden
from scope_server.limits import Limits

CALLER: web.RequestKey[Caller] = web.RequestKey("caller", Caller)


def admit(
    authenticate: Authenticate,
    routes: Mapping[web.AbstractRoute, Route],
    public: Set[web.AbstractRoute],
    limits: Limits,
) -> Middleware:
    """Finds the caller of each request, and refuses one whose role or rate does not allow the route.

    What is no route needs a login as well, so that strangers learn nothing of what there is.

    Args:
        routes: the declaration of each route of the API.
        public: routes of the console's files, which need no login.

    Raises:
        NotAuthenticated, Forbidden, TooManyRequests: the middleware; the request is refused.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.route in public:
            return await handler(request)
        route = routes.get(request.match_info.route)
        needed = route.role if route else Role.VIEWER
        caller = await authenticate(request) if needed else ANYONE
        if needed and not caller.role.includes(needed):
            raise Forbidden(f"this needs the role {needed}, and {caller.name} is {caller.role}")
        who = caller.name or request.remote or ""
        await limits.take(route.rate if route else OPEN, route.name if route else "", who)
        request[CALLER] = caller
        return await handler(request)

    return check
