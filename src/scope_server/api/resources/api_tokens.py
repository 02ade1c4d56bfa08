"""Tokens for scripts."""

from datetime import datetime, timedelta
from uuid import UUID

from pydantic import Field

from scope_server.accounts.api_tokens import LONGEST, LONGEST_NAME
from scope_server.accounts.caller import Role
from scope_server.api.context import ACCOUNTS
from scope_server.api.resources.users import RoleName
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Body, Parameters
from scope_server.api.routing.route import PREFIX, Routes

ROUTES = Routes()

_DAY_S = 24 * 3600


class ApiToken(Answer):
    """A token for scripts, without the token itself."""

    id: str
    name: str
    owner: str
    role: str
    created: datetime
    expires: datetime
    revoked: datetime | None


class ApiTokens(Answer):
    """Tokens for scripts."""

    tokens: list[ApiToken]


class NewToken(Body):
    """What a token is for."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    role: RoleName = Role.VIEWER
    valid: float = Field(90.0 * _DAY_S, gt=0, le=LONGEST.total_seconds(), description="in seconds")


class Token(Answer):
    """A token. It is shown only here."""

    token: str = Field(description="for the header `Authorization: Bearer`")


class TokenPath(Parameters):
    """Which token."""

    id: UUID


class Gone(Answer):
    """The token is refused from now on."""

    id: UUID


@ROUTES.get(f"{PREFIX}/tokens", Role.VIEWER)
async def get_tokens(call: Call) -> ApiTokens:
    """The caller's tokens; an admin sees everybody's."""
    return ApiTokens(tokens=[ApiToken(**row) for row in await call[ACCOUNTS].api_tokens.all(call.person)])


@ROUTES.post(f"{PREFIX}/tokens", Role.VIEWER, audited="token.make", status=201)
async def make_token(call: Call, body: NewToken) -> Token:
    """Make a token for scripts, which may do no more than the caller."""
    valid = timedelta(seconds=body.valid)
    return Token(token=await call[ACCOUNTS].api_tokens.make(call.person, body.name, body.role, valid))


@ROUTES.post(f"{PREFIX}/tokens/{{id}}/revoke", Role.VIEWER, audited="token.revoke")
async def revoke_token(call: Call, path: TokenPath) -> Gone:
    """Revoke a token."""
    await call[ACCOUNTS].api_tokens.revoke(call.person, path.id)
    return Gone(id=path.id)
