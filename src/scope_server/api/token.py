"""Callers with the server's bearer token: they are admins."""

from aiohttp import web

from scope_server.accounts.caller import Caller, Role
from scope_server.api.routing.callers import Authenticate
from scope_server.errors import NotAuthenticated
from scope_wire.token import shows

BEARER = Caller("token", Role.ADMIN)


def by_token(token: str) -> Authenticate:
    """Finds the caller of a request by the token that it shows."""

    async def authenticate(request: web.Request) -> Caller:
        if shows(request.headers.get("Authorization"), token):
            return BEARER
        raise NotAuthenticated(
            "the token is missing or wrong; send -H 'Authorization: Bearer TOKEN' (from the token file)"
        )

    return authenticate
