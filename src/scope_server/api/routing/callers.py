"""How requests get their callers."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from scope_server.accounts.caller import Caller, Role

# Finds out who sent a request. Raises NotAuthenticated if the request does not show it.
Authenticate = Callable[[web.Request], Awaitable[Caller]]

# Who calls a route that needs no login: nobody looks who it is.
ANYONE = Caller("", Role.VIEWER)
