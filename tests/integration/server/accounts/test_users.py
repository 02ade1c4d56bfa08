"""Accounts: who makes them, how people register, and that an admin stays."""

import asyncio
from datetime import timedelta

import pytest
from tests.integration.server.accounts.house import ADA, HERE, LOCAL, PASSWORD, House

from scope_server.accounts.caller import Role
from scope_server.accounts.passwords import Passwords
from scope_server.accounts.users import Change, Users
from scope_server.errors import Forbidden, InvalidQuery, NotAuthenticated, ScopeServerError, UnknownThing

EVE = "eve@example.org"


async def role_of(house: House, email: str) -> Role:
    """The role that an account really has."""
    return (await house.logins.caller((await house.login(email=email)).access_token, HERE)).role


async def test_an_invitation_makes_one_account(house: House) -> None:
    """With its role; for its email, in whichever case; once."""
    invitation = await house.users.invite(EVE, Role.OPERATOR)
    with pytest.raises(NotAuthenticated, match="needs an invitation"):
        await house.users.register("mallory@example.org", PASSWORD, invitation)
    await house.users.register(EVE.upper(), PASSWORD, invitation)
    assert await role_of(house, EVE) is Role.OPERATOR
    with pytest.raises(NotAuthenticated, match="needs an invitation"):
        await house.users.register(EVE, PASSWORD, invitation)


async def test_an_invitation_ends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time it is as if there were none."""
    monkeypatch.setattr("scope_server.accounts.users.INVITATION", timedelta(seconds=-1))
    invitation = await house.users.invite(EVE, Role.OPERATOR)
    with pytest.raises(NotAuthenticated, match="needs an invitation"):
        await house.users.register(EVE, PASSWORD, invitation)


async def test_an_invitation_makes_no_second_account(house: House) -> None:
    """It does not take over an account either, and stays valid."""
    invitation = await house.users.invite(ADA, Role.ADMIN)
    with pytest.raises(NotAuthenticated, match="cannot be registered"):
        await house.users.register(ADA, "staple staple staple", invitation)
    assert await role_of(house, ADA) is Role.OPERATOR


async def test_registration_is_closed_unless_it_is_opened(house: House) -> None:
    """Opened, it makes viewers."""
    with pytest.raises(NotAuthenticated, match="needs an invitation"):
        await house.users.register(EVE, PASSWORD, "")
    opened = Users(house.database, Passwords(), open_registration=True)
    await opened.register(EVE, PASSWORD, "")
    assert await role_of(house, EVE) is Role.VIEWER
    with pytest.raises(NotAuthenticated, match="needs an invitation"):
        await opened.register("other@example.org", PASSWORD, "scope_invitation_made-up")


@pytest.mark.parametrize(
    ("email", "password", "reason"),
    [
        ("", PASSWORD, "email: is not"),
        ("ada", PASSWORD, "email: is not"),
        ("a b@example.org", PASSWORD, "email: is not"),
        ("a\n@example.org", PASSWORD, "email: is not"),
        ("a" * 65 + "@example.org", PASSWORD, "email: is not"),
        (EVE, "short", "password: must have from 12"),
        (EVE, "x" * 257, "password: must have from 12 to 256"),
        (ADA, PASSWORD, "there is an account"),
    ],
)
async def test_what_makes_no_account(house: House, email: str, password: str, reason: str) -> None:
    """The error names the field, and no account is made."""
    before = await house.users.all()
    with pytest.raises(InvalidQuery, match=reason):
        await house.users.add(email, password, Role.VIEWER)
    assert await house.users.all() == before
    assert not [row for row in before if "password" in row]


async def test_the_last_admin_stays(house: House) -> None:
    """Two admins who demote each other at the same time: one succeeds."""
    for email in ("one@example.org", "two@example.org"):
        await house.users.add(email, PASSWORD, Role.ADMIN)
    demote = [
        house.users.change(LOCAL, email, Change(role=Role.VIEWER)) for email in ("one@example.org", "two@example.org")
    ]
    answers = await asyncio.gather(*demote, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Forbidden", "NoneType"]
    (admin,) = [row["email"] for row in await house.users.all() if row["role"] == "admin"]
    with pytest.raises(Forbidden, match="no admin would be left"):
        await house.users.change(LOCAL, admin, Change(disabled=True))


async def test_an_unknown_account_is_named(house: House) -> None:
    """Nothing is noted of what did not happen."""
    before = await house.acts()
    with pytest.raises(UnknownThing, match="'nobody'"):
        await house.users.change(LOCAL, "Nobody", Change(disabled=True))
    assert await house.acts() == before


async def test_tokens_for_scripts(house: House) -> None:
    """They may do what they were made for, never more than their owner; revoked or over, nothing."""
    caller = await house.logins.caller((await house.login()).access_token, HERE)
    token = await house.tokens.make(caller, "ci", Role.OPERATOR, timedelta(days=1))
    reads = await house.tokens.make(caller, "reads", Role.VIEWER, timedelta(days=1))
    over = await house.tokens.make(caller, "over", Role.VIEWER, timedelta(microseconds=1))
    assert (await house.tokens.caller(token, HERE)).role is Role.OPERATOR
    assert (await house.tokens.caller(reads, HERE)).role is Role.VIEWER
    await house.users.change(LOCAL, ADA, Change(role=Role.VIEWER))
    assert (await house.tokens.caller(token, HERE)).role is Role.VIEWER
    (listed,) = [row for row in await house.tokens.all(caller) if row["name"] == "ci"]
    assert "digest" not in listed
    await house.tokens.revoke(caller, listed["id"])
    for ended in (token, over, "scope_token_made-up", "", "\udcff"):
        with pytest.raises(NotAuthenticated):
            await house.tokens.caller(ended, HERE)


async def test_tokens_of_others_are_theirs(house: House) -> None:
    """A person neither sees nor revokes them; an admin does. Nobody makes a token that may do more than they."""
    await house.users.add(EVE, PASSWORD, Role.VIEWER)
    await house.users.add("root@example.org", PASSWORD, Role.ADMIN)
    ada, eve, root = [
        await house.logins.caller((await house.login(email=email)).access_token, HERE)
        for email in (ADA, EVE, "root@example.org")
    ]
    await house.tokens.make(ada, "ci", Role.OPERATOR, timedelta(days=1))
    (listed,) = await house.tokens.all(ada)
    assert await house.tokens.all(eve) == []
    with pytest.raises(UnknownThing):
        await house.tokens.revoke(eve, listed["id"])
    refused: list[tuple[str, Role, timedelta, type[ScopeServerError]]] = [
        ("more", Role.ADMIN, timedelta(days=1), Forbidden),
        ("ci", Role.VIEWER, timedelta(days=1), InvalidQuery),
        ("", Role.VIEWER, timedelta(days=1), InvalidQuery),
        ("long", Role.VIEWER, timedelta(days=400), InvalidQuery),
    ]
    for name, role, valid, error in refused:
        with pytest.raises(error):
            await house.tokens.make(ada, name, role, valid)
    await house.tokens.revoke(root, listed["id"])
