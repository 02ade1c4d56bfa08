"""Tokens for scripts: made by a person, shown once, and never worth more than that person's account."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from scope_server.accounts import secret
from scope_server.accounts.caller import Caller, Role
from scope_server.accounts.refusals import Refusals
from scope_server.errors import Forbidden, InvalidQuery, NotAuthenticated, UnknownThing
from scope_server.store.reading.database import Database
from scope_server.store.reading.queries import queries

LONGEST = timedelta(days=366)
LONGEST_NAME = 64  # characters


class ApiTokens:
    """The tokens for scripts."""

    def __init__(self, database: Database, refusals: Refusals) -> None:
        self._database, self._refusals = database, refusals

    async def make(self, by: Caller, name: str, role: Role, valid: timedelta) -> str:
        """A new token of the caller. It is not kept and cannot be shown again.

        Raises:
            Forbidden: it would be allowed more than the caller, or the caller has no account.
            InvalidQuery: the name or time is not valid, or the caller has a token of this name.
            StoreUnavailable: the database cannot be reached.
        """
        if not by.user:
            raise Forbidden("a token belongs to an account; log in")
        if not by.role.includes(role):
            raise Forbidden(f"role: a token of {by.name} may not be {role}")
        if not 0 < len(name) <= LONGEST_NAME or not timedelta() < valid <= LONGEST:
            raise InvalidQuery(f"name: from 1 to {LONGEST_NAME} characters; valid: at most {LONGEST.days} days")
        token = secret.make("token")
        row = {"digest": secret.digest(token), "user": by.user, "name": name, "role": role.value, "valid": valid}
        async with self._database.connection() as connection, connection.transaction():
            if not await (await connection.execute(queries()["make_api_token"], row)).fetchone():
                raise InvalidQuery(f"name: there is a token of {by.name} named {name!r}; take another name")
        return token

    async def all(self, by: Caller) -> list[dict[str, Any]]:
        """The caller's tokens; an admin sees everybody's."""
        return list(await self._database.fetch("api_tokens", {"user": _of(by)}))

    async def revoke(self, by: Caller, token: UUID) -> None:
        """Revokes a token of the caller; an admin may revoke everybody's.

        Raises:
            UnknownThing: there is none that is valid.
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.connection() as connection, connection.transaction():
            row = {"token": token, "user": _of(by)}
            if not (await connection.execute(queries()["revoke_api_token"], row)).rowcount:
                raise UnknownThing(f"token: {token} is not the id of any, or it was revoked before")

    async def caller(self, token: str, address: str) -> Caller:
        """Whose token this is.

        Args:
            address: from where it was shown.

        Raises:
            NotAuthenticated: it is not valid.
            TooManyRequests: too many that are not valid came from there.
            StoreUnavailable: the database cannot be reached.
        """
        digest = secret.digest(token)
        rows = await self._refusals.bounded(
            address, digest, lambda: self._database.fetch("api_token", {"digest": digest})
        )
        if not rows:
            raise NotAuthenticated("the token is not valid, has expired or was revoked")
        (row,) = rows
        owners, tokens = Role(row["role"]), Role(row["token_role"])
        return Caller(row["email"], tokens if owners.includes(tokens) else owners, row["id"])


def _of(by: Caller) -> str | None:
    """Whose tokens a caller may see; None: everybody's."""
    return None if by.role is Role.ADMIN else by.user
