"""Logins: a password gives an access token and a refresh token; a refresh token gives the next pair, once.

A refresh token that was used before is in two hands. Within a few seconds that is two windows of one browser, or an
answer that was lost: the second one is refused, and nothing else. Later it is a theft: the whole login ends.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from psycopg.rows import DictRow

from scope_server.accounts import secret
from scope_server.accounts.access_token import LIFETIME, AccessToken, AccessTokens
from scope_server.accounts.audit import Act, Audit
from scope_server.accounts.caller import Caller, Role
from scope_server.accounts.devices import Devices
from scope_server.accounts.passwords import Passwords
from scope_server.accounts.refusals import Refusals
from scope_server.accounts.throttle import Throttle
from scope_server.errors import NotAuthenticated
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
        device: what its owner is to show at the next login, see `Devices`; empty: nothing new.
        expires_s: how long the access token is valid, s.
    """

    access_token: str
    refresh_token: str
    login: str
    device: str = ""
    expires_s: int = int(LIFETIME.total_seconds())


class Logins:
    """Begins, continues and ends logins."""

    def __init__(
        self,
        database: Database,
        passwords: Passwords,
        audit: Audit,
        *,
        tokens: AccessTokens,
        devices: Devices,
        throttle: Throttle,
        refusals: Refusals,
    ) -> None:
        self._database, self._passwords, self._tokens, self._audit = database, passwords, tokens, audit
        self._devices, self._throttle, self._refusals = devices, throttle, refusals

    async def begin(self, email: str, password: str, address: str, program: str, device: str = "") -> Pair:
        """Logs in. An unknown email and a wrong password get the same answer, as late.

        Args:
            device: what an earlier login gave; empty: nothing.

        Raises:
            NotAuthenticated: they are not those of an account, or it is disabled.
            TooManyRequests: too many passwords were tried.
            StoreUnavailable: the database cannot be reached.
        """
        user = await self._with_password(email, password, address, device)
        email = user["email"]
        if self._passwords.is_outdated(user["password"]):
            fresh = {"password": await self._passwords.hash(password), "before": user["password"]}
            await self._database.run("keep_password", {"user": user["id"], **fresh})
        return await self._begin(user["id"], email, address, program)

    async def require_password(self, email: str, password: str, address: str, device: str = "") -> None:
        """Checks the password of an account, as a login does.

        Raises:
            NotAuthenticated, TooManyRequests, StoreUnavailable: as for `begin`.
        """
        await self._with_password(email, password, address, device)

    async def _with_password(self, email: str, password: str, address: str, device: str) -> DictRow:
        await self._throttle.address(address)
        email = email.strip().lower()
        rows = await self._database.fetch("user_named", {"email": email, "address": address})
        user = rows[0] if rows else None
        number = self._devices.number(device, user["id"]) if user and device else ""
        owner = number or (address if user and user["known_address"] else "")
        await self._throttle.account(email, owner)
        matches = await self._passwords.matches(user["password"] if user else None, password)
        if user is None or not matches or user["disabled"]:
            await self._audit.note(Act(email[:_EMAIL], address, "login.refuse", "", {}))
            raise NotAuthenticated(_WRONG)
        await self._throttle.succeeded(email, address, owner)
        return user

    async def _begin(self, user: str, email: str, address: str, program: str) -> Pair:
        refresh = secret.make("refresh")
        row = {"user": user, "address": address, "program": program[:_PROGRAM], "digest": secret.digest(refresh)}
        async with self._database.connection() as connection, connection.transaction():
            begun = await connection.execute(queries()["begin_login"], row | {"valid": VALID})
            (login,) = [found["id"] for found in await begun.fetchall()]
            await self._audit.append(connection, Act(email, address, "login.begin", login, {"program": row["program"]}))
        return Pair(self._tokens.make(user, login), refresh, login, self._devices.make(user))

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

    async def caller(self, text: str, address: str) -> Caller:
        """Who shows this access token.

        Args:
            address: from where.

        Raises:
            NotAuthenticated: it is not valid, or its login has ended.
            TooManyRequests: too many whose logins have ended came from there.
            StoreUnavailable: the database cannot be reached.
        """
        token = self._tokens.read(text)
        rows = await self._login_of(token, address) if token else []
        if not token or not rows:
            raise NotAuthenticated("the access token is not valid, or has expired; refresh it, or log in again")
        return Caller(rows[0]["email"], Role(rows[0]["role"]), token.user, token.login)

    async def _login_of(self, token: AccessToken, address: str) -> list[DictRow]:
        of = {"login": token.login, "user": token.user}
        return await self._refusals.bounded(address, token.login, lambda: self._database.fetch("login", of))
