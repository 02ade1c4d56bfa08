"""Accounts: admins make and change them, or invite people, who then register."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from scope_server.accounts import secret
from scope_server.accounts.caller import Caller, Role
from scope_server.accounts.passwords import Passwords
from scope_server.errors import Forbidden, InvalidQuery, NotAuthenticated, UnknownThing
from scope_server.store.reading.database import Connection, Database
from scope_server.store.reading.queries import queries

INVITATION = timedelta(days=7)
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}")  # lengths: RFC 5321, 4.5.3.1


@dataclass(frozen=True)
class Change:
    """What to change of an account; None: leave it."""

    role: Role | None = None
    disabled: bool | None = None
    password: str | None = None


class Users:
    """The accounts.

    Args:
        open_registration: whether anybody may register, as a viewer.

    Attributes:
        is_open: the same.
    """

    def __init__(self, database: Database, passwords: Passwords, *, open_registration: bool) -> None:
        self._database, self._passwords = database, passwords
        self.is_open = open_registration

    async def all(self) -> list[dict[str, Any]]:
        """All accounts, with when they were last active; without their passwords."""
        return list(await self._database.fetch("users"))

    async def add(self, email: str, password: str, role: Role) -> str:
        """Makes an account; returns its id.

        Raises:
            InvalidQuery: the email or password is not valid, or there is such an account.
            StoreUnavailable: the database cannot be reached.
        """
        email = email_of(email)
        hashed = await self._passwords.hash(password)
        async with self._database.connection() as connection, connection.transaction():
            user = await self._add(connection, email, hashed, role)
            if user is None:
                raise InvalidQuery(f"email: there is an account of {email}")
        return user

    async def invite(self, email: str, role: Role) -> str:
        """Makes an invitation; returns it. It is not kept and cannot be shown again.

        Raises:
            InvalidQuery: the email is not valid.
            StoreUnavailable: the database cannot be reached.
        """
        email, invitation = email_of(email), secret.make("invitation")
        row = {"digest": secret.digest(invitation), "email": email, "role": role.value, "valid": INVITATION}
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(queries()["forget_invitations"])
            await connection.execute(queries()["invite"], row)
        return invitation

    async def register(self, email: str, password: str, invitation: str) -> str:
        """Makes an account for who was invited, or for anybody if registration is open; returns its email.

        Raises:
            InvalidQuery: the email or password is not valid.
            NotAuthenticated: there is no such invitation, or an account already: the answer is the same.
            StoreUnavailable: the database cannot be reached.
        """
        email = email_of(email)
        hashed = await self._passwords.hash(password)
        async with self._database.connection() as connection, connection.transaction():
            invited = {"digest": secret.digest(invitation), "email": email}
            found = await (await connection.execute(queries()["use_invitation"], invited)).fetchone()
            if found is None and (invitation or not self.is_open):
                raise NotAuthenticated("registering needs an invitation for this email; an admin makes it")
            role = Role(found["role"]) if found else Role.VIEWER
            if await self._add(connection, email, hashed, role) is None:
                raise NotAuthenticated("this email cannot be registered; ask an admin")
        return email

    async def change(self, by: Caller, email: str, change: Change) -> None:
        """Changes an account. A new password or a disabled account ends all its logins, but for the caller's own.

        Raises:
            InvalidQuery: the password is not valid.
            UnknownThing: there is no such account.
            Forbidden: no admin would be left.
            StoreUnavailable: the database cannot be reached.
        """
        email = email.strip().lower()
        hashed = await self._passwords.hash(change.password) if change.password is not None else None
        role = change.role.value if change.role else None
        row = {"email": email, "role": role, "disabled": change.disabled, "password": hashed}
        async with self._database.connection() as connection, connection.transaction():
            before = await (await connection.execute(queries()["lock_admins"])).fetchone()
            found = await (await connection.execute(queries()["change_user"], row)).fetchone()
            if found is None:
                raise UnknownThing(f"email: there is no account of {email!r}")
            if before and not await (await connection.execute(queries()["lock_admins"])).fetchone():
                raise Forbidden("no admin would be left; make another one first")
            if hashed or change.disabled:
                reason = "password" if hashed else "revoked"
                end = {"user": found["id"], "reason": reason, "but": by.login}
                await connection.execute(queries()["end_logins"], end)

    async def _add(self, connection: Connection, email: str, hashed: str, role: Role) -> str | None:
        row = {"email": email, "password": hashed, "role": role.value}
        found = await (await connection.execute(queries()["add_user"], row)).fetchone()
        return found["id"] if found else None


def email_of(given: str) -> str:
    """An email as accounts have it: in lower case.

    Raises:
        InvalidQuery: it is none.
    """
    email = given.strip().lower()
    if not _EMAIL.fullmatch(email):
        raise InvalidQuery("email: is not an email address; write it like ada@example.org")
    return email
