"""Logins: a password gives an access token and a refresh token; a refresh token gives the next pair, once.

A refresh token that was used before is in two hands. Within a few seconds that is two windows of one browser, or an
answer that was lost: the second one is refused, and nothing else. Later it is a theft: the whole login ends.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from psycopg.rows import DictRow

from scope_server.accounts import secret
from scope_server.accounts.access_token import LIFETIME, AccessTokens
from scope_server.accounts.audit import Act, Audit
from scope_server.accounts.caller import Caller, Role
from scope_server.accounts.passwords import Passwords
from scope_server.accounts.throttle import Throttle
from scope_server.errors import NotAuthenticated
from scope_server.limits import Limits
from scope_server.store.reading.database import Database
from scope_server.store.reading.queries import queries

log = logging.getLogger(__name__)

VALID = timedelta(days=30)  # of a refresh token
GRACE = timedelta(seconds=10)  # in which a spent refresh token is no theft
_EMAIL = 254  # characters kept of an email that may be none
_PROGRAM = 200  # characters kept of a User-Agent
_WRONG = "no account has this email and password"


@dataclass(frozen=True)
class Pair:
    """What a login gives.

    Attributes:
        login: its id.
        expires_s: how long the access token is valid, s.
    """

    access_token: str
    refresh_token: str
    login: str
    expires_s: int = int(LIFETIME.total_seconds())


class Logins:
    """Begins, continues and ends logins."""

    def __init__(
        self, database: Database, passwords: Passwords, tokens: AccessTokens, audit: Audit, limits: Limits
    ) -> None:
        self._database, self._passwords, self._tokens, self._audit = database, passwords, tokens, audit
        self._throttle = Throttle(limits)

    async def begin(self, email: str, password: str, address: str, program: str) -> Pair:
        """Logs in. An unknown email and a wrong password get the same answer, as late.

        Raises:
            NotAuthenticated: they are not those of an account, or it is disabled.
            TooManyRequests: too many passwords were tried.
            StoreUnavailable: the database cannot be reached.
        """
        user = await self._with_password(email, password, address)
        email = user["email"]
        if self._passwords.is_outdated(user["password"]):
            fresh = {"password": await self._passwords.hash(password), "before": user["password"]}
            await self._database.run("keep_password", {"user": user["id"], **fresh})
        return await self._begin(user["id"], email, address, program)

    async def require_password(self, email: str, password: str, address: str) -> None:
        """Checks the password of an account, as a login does.

        Raises:
            NotAuthenticated, TooManyRequests, StoreUnavailable: as for `begin`.
        """
        await self._with_password(email, password, address)

    async def _with_password(self, email: str, password: str, address: str) -> DictRow:
        await self._throttle.address(address)
        email = email.strip().lower()
        rows = await self._database.fetch("user_named", {"email": email, "address": address})
        user = rows[0] if rows else None
        await self._throttle.account(email, address, known_address=bool(user and user["known_address"]))
        matches = await self._passwords.matches(user["password"] if user else None, password)
        if user is None or not matches or user["disabled"]:
            await self._audit.note(Act(email[:_EMAIL], address, "login.refuse", "", {}))
            raise NotAuthenticated(_WRONG)
        await self._throttle.succeeded(email, address)
        return user

    async def _begin(self, user: str, email: str, address: str, program: str) -> Pair:
        refresh = secret.make("refresh")
        row = {"user": user, "address": address, "program": program[:_PROGRAM], "digest": secret.digest(refresh)}
        async with self._database.connection() as connection, connection.transaction():
            begun = await connection.execute(queries()["begin_login"], row | {"valid": VALID})
            (login,) = [found["id"] for found in await begun.fetchall()]
            await self._audit.append(connection, Act(email, address, "login.begin", login, {"program": row["program"]}))
        return Pair(self._tokens.make(user, login), refresh, login)

    async def refresh(self, token: str, address: str) -> Pair:
        """Spends a refresh token. Of several that come at the same time with one token, one succeeds.

        Raises:
            NotAuthenticated: it is not valid, or was spent.
            StoreUnavailable: the database cannot be reached.
        """
        fresh, given = secret.make("refresh"), secret.digest(token)
        async with self._database.connection() as connection, connection.transaction():
            found = await (await connection.execute(queries()["lock_refresh"], {"digest": given})).fetchone()
            refused = ""
            if found is None or found["ended"] or found["expired"] or found["disabled"]:
                refused = "the refresh token is not valid; log in again"
            elif found["spent"] and found["since"] <= GRACE:
                refused = "the refresh token was spent a moment ago; use the one that it gave"
            elif found["spent"]:
                refused = "the refresh token was spent before: its login has ended, because somebody may have stolen it"
                log.warning("a spent refresh token was used again", extra={"user": found["email"], "peer": address})
                await connection.execute(queries()["end_login"], {"login": found["login"], "reason": "reuse"})
                act = Act(found["email"], address, "login.reuse", found["login"], {})
                await self._audit.append(connection, act)
            else:
                spend = {"digest": given, "next": secret.digest(fresh), "valid": VALID}
                await connection.execute(queries()["spend_refresh"], spend)
        if refused or found is None:
            raise NotAuthenticated(refused)
        return Pair(self._tokens.make(found["user_id"], found["login"]), fresh, found["login"])

    async def end(self, caller: Caller, address: str) -> None:
        """Logs out: the login's access and refresh tokens are refused from now on.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(queries()["end_login"], {"login": caller.login, "reason": "logout"})
            await self._audit.append(connection, Act(caller.name, address, "login.end", caller.login, {}))

    async def caller(self, text: str) -> Caller:
        """Who shows this access token.

        Raises:
            NotAuthenticated: it is not valid, or its login has ended.
            StoreUnavailable: the database cannot be reached.
        """
        token = self._tokens.read(text)
        rows = await self._database.fetch("login", {"login": token.login, "user": token.user}) if token else []
        if not token or not rows:
            raise NotAuthenticated("the access token is not valid, or has expired; refresh it, or log in again")
        return Caller(rows[0]["email"], Role(rows[0]["role"]), token.user, token.login)
