"""Who sends a request: an account, by an access token, a token for scripts or the console's cookie; or the machine's
own user."""

from aiohttp import web

from scope_server.accounts import csrf, secret
from scope_server.accounts.accounts import Accounts
from scope_server.accounts.caller import Caller
from scope_server.accounts.local import person_at
from scope_server.api.routing.callers import Authenticate
from scope_server.api.routing.cookies import Cookies
from scope_server.errors import NotAuthenticated

_HOW = "log in at /api/v1/auth/login, and send -H 'Authorization: Bearer ACCESS_TOKEN', or a token for scripts"
_BEARER = "Bearer "
_FOR_SCRIPTS = secret.beginning("token")
_READING = ("GET", "HEAD")


def by_accounts(accounts: Accounts) -> Authenticate:
    """Finds the caller of a request. What a request shows counts before where it comes from."""

    async def authenticate(request: web.Request) -> Caller:
        shown = request.headers.get("Authorization")
        if shown is None:
            access = Cookies(accounts.installation).access_in(request.cookies)
            return await _by_cookie(accounts, access, request) if access else _local(request)
        if not shown.startswith(_BEARER):
            raise NotAuthenticated(_HOW)
        token = shown.removeprefix(_BEARER)
        of = accounts.api_tokens if token.startswith(_FOR_SCRIPTS) else accounts.logins
        return await of.caller(token, request.remote or "")

    return authenticate


async def _by_cookie(accounts: Accounts, access: str, request: web.Request) -> Caller:
    """The caller of a request of the console. A browser sends cookies by itself: a change needs a proof besides."""
    caller = await accounts.logins.caller(access, request.remote or "")
    if request.method not in _READING:
        accounts.csrf.require(caller.login, request.headers.get(csrf.HEADER, ""))
    return caller


def _local(request: web.Request) -> Caller:
    connection = request.transport.get_extra_info("socket") if request.transport else None
    caller = person_at(connection) if connection else None
    if caller is None:
        raise NotAuthenticated(_HOW)
    return caller
