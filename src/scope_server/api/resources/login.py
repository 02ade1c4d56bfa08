"""Logging in and out, and registering."""

from typing import Literal

from pydantic import Field, SecretStr

from scope_server.accounts import csrf
from scope_server.accounts.caller import Role
from scope_server.accounts.logins import Pair
from scope_server.accounts.passwords import LONGEST, SHORTEST
from scope_server.accounts.users import Change
from scope_server.api.context import ACCOUNTS
from scope_server.api.routing.call import Call
from scope_server.api.routing.cookies import Cookies
from scope_server.api.routing.models import Answer, Body
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import InvalidQuery
from scope_server.limits import Rate

ROUTES = Routes()

_COOKIE = "puts the tokens into HttpOnly cookies instead of the answer, for pages"
_TRIES = Rate(60, 60)  # of one address; how often one account is tried is bounded besides


class Credentials(Body):
    """Who logs in."""

    email: str
    password: SecretStr
    device: SecretStr = Field(
        SecretStr(""), description="what an earlier login gave; without it, the one in the cookie"
    )
    cookie: bool = Field(False, description=f"{_COOKIE}; needs the header {csrf.HEADER} with any value")


class Tokens(Answer):
    """What a login gives."""

    access_token: str = Field(description="for the header `Authorization: Bearer`; empty if it is in a cookie")
    refresh_token: str = Field(description="for the next tokens; valid once; empty if it is in a cookie")
    expires_in: int = Field(description="how long the access token is valid, in seconds")
    device: str = Field(
        "",
        description="of a login: to be shown at the next one, so that it succeeds while others guess the password; "
        "valid for a year; empty if it is in a cookie",
    )
    token_type: str = "Bearer"
    csrf_cookie: str = Field("", description=f"name of the cookie whose value changes need in the header {csrf.HEADER}")


class Refreshing(Body):
    """A refresh token."""

    refresh_token: SecretStr = Field(SecretStr(""), description="without it, the one in the cookie")


class Registration(Body):
    """A new account."""

    email: str
    password: SecretStr = Field(description=f"{SHORTEST} to {LONGEST} characters")
    invitation: SecretStr = Field(SecretStr(""), description="from an admin, unless anybody may register")


class Registered(Answer):
    """The account is there; it can log in."""

    email: str


class Registering(Answer):
    """Who may make an account."""

    who: Literal["invited", "anybody"]


class Me(Answer):
    """Who calls."""

    name: str = Field(description="the account's email, or the user of the machine itself")
    role: str


class Done(Answer):
    """It is done."""

    done: bool = True


class NewPassword(Body):
    """A new password of the caller."""

    password: SecretStr
    new_password: SecretStr = Field(description=f"{SHORTEST} to {LONGEST} characters")


@ROUTES.post(f"{PREFIX}/auth/login", None, audited="login.begin", notes_itself=True, rate=_TRIES)
async def login(call: Call, body: Credentials) -> Tokens:
    """Log in with a password. An unknown email and a wrong password get the same answer."""
    if body.cookie:
        csrf.require_same(call.csrf, call.csrf)  # no page of another site logs a browser in
    password = body.password.get_secret_value()
    device = body.device.get_secret_value() or _cookies(call).device_in(call.cookies)
    pair = await call[ACCOUNTS].logins.begin(body.email, password, call.address, call.program, device)
    return _in_cookies(call, pair) if body.cookie else _tokens(pair)


@ROUTES.post(f"{PREFIX}/auth/refresh", None, audited="login.reuse", notes_itself=True, rate=_TRIES)
async def refresh(call: Call, body: Refreshing) -> Tokens:
    """The next tokens of a login. A refresh token that comes again ends the login: it may be stolen."""
    given = body.refresh_token.get_secret_value()
    if given:
        return _tokens(await call[ACCOUNTS].logins.refresh(given, call.address))
    cookies = _cookies(call)
    given = cookies.refresh_in(call.cookies)
    if not given:
        raise InvalidQuery("refresh_token: it is missing, and there is no cookie with one")
    csrf.require_same(cookies.csrf_in(call.cookies), call.csrf)
    return _in_cookies(call, await call[ACCOUNTS].logins.refresh(given, call.address))


@ROUTES.post(f"{PREFIX}/auth/logout", Role.VIEWER, audited="login.end", notes_itself=True)
async def logout(call: Call) -> Done:
    """Log out: the login's tokens are refused from now on."""
    if not call.person.login:
        raise InvalidQuery("only a login can be ended; a token for scripts is revoked at /api/v1/tokens")
    await call[ACCOUNTS].logins.end(call.person, call.address)
    if _cookies(call).access_in(call.cookies):
        call.puts.append(_cookies(call).forgotten())
    return Done()


@ROUTES.get(f"{PREFIX}/auth/register", None)
async def who_may_register(call: Call) -> Registering:
    """Whether an account needs an invitation from an admin."""
    return Registering(who="anybody" if call[ACCOUNTS].users.is_open else "invited")


@ROUTES.post(f"{PREFIX}/auth/register", None, audited="user.register", rate=_TRIES, status=201)
async def register(call: Call, body: Registration) -> Registered:
    """Make an account for who was invited, or for anybody if the server allows it."""
    password, invitation = body.password.get_secret_value(), body.invitation.get_secret_value()
    return Registered(email=await call[ACCOUNTS].users.register(body.email, password, invitation))


@ROUTES.post(f"{PREFIX}/auth/password", Role.VIEWER, audited="user.password")
async def change_password(call: Call, body: NewPassword) -> Done:
    """Change the caller's password. All other logins of the account end."""
    if not call.person.login:
        raise InvalidQuery("only who has logged in with a password can change it")
    password, device = body.password.get_secret_value(), _cookies(call).device_in(call.cookies)
    await call[ACCOUNTS].logins.require_password(call.person.name, password, call.address, device)
    change = Change(password=body.new_password.get_secret_value())
    await call[ACCOUNTS].users.change(call.person, call.person.name, change)
    return Done()


@ROUTES.get(f"{PREFIX}/auth/me", Role.VIEWER)
async def who_am_i(call: Call) -> Me:
    """Who the caller is, and what they may do."""
    return Me(name=call.person.name, role=call.person.role.value)


def _tokens(pair: Pair) -> Tokens:
    return Tokens(
        access_token=pair.access_token,
        refresh_token=pair.refresh_token,
        expires_in=pair.expires_s,
        device=pair.device,
        csrf_cookie="",
    )


def _in_cookies(call: Call, pair: Pair) -> Tokens:
    """The tokens where no script of a page can read them."""
    cookies = _cookies(call)
    call.puts.append(cookies.of_login(pair.access_token, pair.refresh_token, call[ACCOUNTS].csrf.of(pair.login)))
    if pair.device:
        call.puts.append(cookies.of_device(pair.device))
    return Tokens(access_token="", refresh_token="", expires_in=pair.expires_s, device="", csrf_cookie=cookies.csrf)


def _cookies(call: Call) -> Cookies:
    return Cookies(call[ACCOUNTS].installation)
