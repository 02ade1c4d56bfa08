"""Accounts: who may log in, and what they may do."""

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, WithJsonSchema

from scope_server.accounts.caller import Role
from scope_server.accounts.passwords import LONGEST, SHORTEST
from scope_server.accounts.users import INVITATION, Change
from scope_server.api.context import ACCOUNTS
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Body, Parameters
from scope_server.api.routing.route import PREFIX, Routes

ROUTES = Routes()


def _role(value: str) -> Role:
    return Role(value)


# A role in a body, whose values are not converted otherwise.
RoleName = Annotated[
    Role, BeforeValidator(_role), WithJsonSchema({"type": "string", "enum": [role.value for role in Role]})
]


class User(Answer):
    """An account."""

    id: str
    email: str
    role: str
    created: datetime
    seen: datetime | None = Field(description="when one of its logins was last refreshed")
    disabled: datetime | None = Field(description="since when it may not log in")


class Users(Answer):
    """Accounts."""

    users: list[User]


class NewUser(Body):
    """A new account."""

    email: str
    password: SecretStr = Field(description=f"{SHORTEST} to {LONGEST} characters")
    role: RoleName = Role.VIEWER


class Added(Answer):
    """The account is there."""

    id: str


class Inviting(Body):
    """Who is invited."""

    email: str
    role: RoleName = Role.VIEWER


class Invitation(Answer):
    """An invitation. It is shown only here."""

    invitation: str = Field(description=f"for /auth/register, for {INVITATION.days} days")


class UserPath(Parameters):
    """Which account."""

    email: str


class UserChange(Body):
    """What to change; what is left out stays."""

    role: RoleName | None = None
    disabled: bool | None = None
    password: SecretStr | None = None


class Changed(Answer):
    """The account is changed."""

    email: str


@ROUTES.get(f"{PREFIX}/users", Role.ADMIN)
async def get_users(call: Call) -> Users:
    """All accounts."""
    return Users(users=[User(**row) for row in await call[ACCOUNTS].users.all()])


@ROUTES.post(f"{PREFIX}/users", Role.ADMIN, audited="user.add", status=201)
async def add_user(call: Call, body: NewUser) -> Added:
    """Make an account."""
    return Added(id=await call[ACCOUNTS].users.add(body.email, body.password.get_secret_value(), body.role))


@ROUTES.post(f"{PREFIX}/invitations", Role.ADMIN, audited="user.invite", status=201)
async def invite_user(call: Call, body: Inviting) -> Invitation:
    """Invite somebody to register."""
    return Invitation(invitation=await call[ACCOUNTS].users.invite(body.email, body.role))


@ROUTES.post(f"{PREFIX}/users/{{email}}", Role.ADMIN, audited="user.change")
async def change_user(call: Call, path: UserPath, body: UserChange) -> Changed:
    """Change an account. Disabled, or with a new password, all its logins end."""
    password = body.password.get_secret_value() if body.password else None
    change = Change(body.role, body.disabled, password)
    await call[ACCOUNTS].users.change(call.person, path.email, change)
    return Changed(email=path.email)
