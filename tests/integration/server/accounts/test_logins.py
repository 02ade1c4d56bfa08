"""Logins: passwords, the rotation of refresh tokens, theft, races, and ends that count at once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher
from tests.integration.server.accounts.house import ADA, HERE, LOCAL, PASSWORD, House

from scope_server.accounts import logins
from scope_server.accounts.caller import Role
from scope_server.accounts.logins import Pair
from scope_server.accounts.passwords import Passwords
from scope_server.accounts.users import Change
from scope_server.errors import NotAuthenticated, TooManyRequests


async def test_a_password_gives_a_pair(house: House) -> None:
    """The access token says whose it is; the role is the account's of now."""
    pair = await house.login(email=" ADA@example.org ")
    caller = await house.logins.caller(pair.access_token, HERE)
    assert (caller.name, caller.role) == (ADA, Role.OPERATOR)
    await house.users.change(LOCAL, ADA, Change(role=Role.VIEWER))
    assert (await house.logins.caller(pair.access_token, HERE)).role is Role.VIEWER


@pytest.mark.parametrize(
    ("email", "password"),
    [(ADA, "wrong"), (ADA, ""), (ADA, "x" * 100_000), ("eve@example.org", PASSWORD), ("' OR 1=1 --", PASSWORD)],
    ids=["wrong", "empty", "huge", "unknown", "injected"],
)
async def test_what_is_wrong_has_one_answer(house: House, email: str, password: str) -> None:
    """It tells neither whether the account exists nor what is wrong, and is noted."""
    with pytest.raises(NotAuthenticated, match=r"^no account has this email and password$"):
        await house.login(password, email)
    assert (await house.acts())[-1] == "login.refuse"


async def test_a_disabled_account_has_the_same_answer(house: House) -> None:
    """Its tokens end at once."""
    pair = await house.login()
    await house.users.change(LOCAL, ADA, Change(disabled=True))
    assert not await house.knows(pair)
    with pytest.raises(NotAuthenticated, match=r"^no account has"):
        await house.login()
    with pytest.raises(NotAuthenticated, match="log in again"):
        await house.refresh(pair)
    await house.users.change(LOCAL, ADA, Change(disabled=False))
    assert await house.knows(await house.login())


async def test_unknown_accounts_cost_a_hash_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time of an answer tells nothing: the same work is done."""
    compared: list[str] = []
    compare = Passwords._compare

    def counted(self: Passwords, kept: str, password: str) -> bool:
        compared.append(kept.split("$")[3])
        return compare(self, kept, password)

    monkeypatch.setattr(Passwords, "_compare", counted)
    for email in (ADA, "eve@example.org"):
        with pytest.raises(NotAuthenticated):
            await house.login("wrong", email)
    assert len(compared) == 2
    assert len(set(compared)) == 1


async def test_a_refresh_token_is_spent_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gives the next; the access tokens of before go on until they end by themselves."""
    first = await house.login()
    second = await house.refresh(first)
    third = await house.refresh(second)
    assert [await house.knows(pair) for pair in (first, second, third)] == [True] * 3
    monkeypatch.setattr(logins, "GRACE", timedelta())
    with pytest.raises(NotAuthenticated, match="somebody may have stolen it"):
        await house.refresh(first)


async def test_a_stolen_refresh_token_ends_the_login(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever used it second, thief or owner: nobody goes on, and it is noted. Other logins are not touched."""
    other, owners = await house.login(), await house.login()
    thiefs = await house.refresh(owners)
    monkeypatch.setattr(logins, "GRACE", timedelta())
    with pytest.raises(NotAuthenticated, match="somebody may have stolen it"):
        await house.refresh(owners)
    with pytest.raises(NotAuthenticated, match="log in again"):
        await house.refresh(thiefs)
    assert not await house.knows(thiefs)
    assert await house.knows(other)
    assert (await house.acts())[-1] == "login.reuse"


async def test_an_honest_race_loses_nothing(house: House) -> None:
    """Of 50 that spend one token at the same time one wins, and its tokens go on."""
    pair = await house.login()

    async def attempt() -> Pair | None:
        try:
            return await house.refresh(pair)
        except NotAuthenticated as error:
            assert "spent a moment ago" in str(error)
            return None

    (winner,) = [won for won in await asyncio.gather(*(attempt() for _ in range(50))) if won]
    assert await house.knows(await house.refresh(winner))


async def test_a_logout_ends_both_tokens_at_once(house: House) -> None:
    """Of this login, not of others."""
    here, there = await house.login(), await house.login()
    await house.logins.end(await house.logins.caller(here.access_token, HERE), HERE)
    assert [await house.knows(here), await house.knows(there)] == [False, True]
    with pytest.raises(NotAuthenticated):
        await house.refresh(here)


async def test_a_new_password_ends_all_other_logins(house: House) -> None:
    """Who changes it goes on."""
    mine, others = await house.login(), await house.login()
    caller = await house.logins.caller(mine.access_token, HERE)
    await house.users.change(caller, ADA, Change(password="staple staple staple"))
    assert [await house.knows(mine), await house.knows(others)] == [True, False]
    assert await house.knows(await house.login("staple staple staple"))


async def test_passwords_are_compared_as_people_type_them(house: House) -> None:
    """A letter with an accent is one character or two."""
    await house.users.add("zoe@example.org", "zo\u00e9 zo\u00e9 zo\u00e9 zo\u00e9", Role.VIEWER)
    assert await house.login("zoe\u0301 zoe\u0301 zoe\u0301 zoe\u0301", "zoe@example.org")


async def test_an_attack_is_slowed_and_its_victim_is_not(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers may try some passwords; the owner logs in from where she did before, and from elsewhere with what her
    last login gave. That is worth nothing for another account, and not many passwords of this one."""
    monkeypatch.setattr("scope_server.limits.time.monotonic", lambda: 1000.0)
    device = (await house.login()).device
    answers: list[Any] = await asyncio.gather(
        *(house.login(f"guess {number}", address=f"203.0.113.{number}") for number in range(59)),
        return_exceptions=True,
    )
    kinds = [type(answer) for answer in answers]
    assert (kinds.count(NotAuthenticated), kinds.count(TooManyRequests)) == (
        19,
        40,
    )  # and the owner, a stranger at first
    assert await house.knows(await house.login())
    with pytest.raises(TooManyRequests):
        await house.login(address="198.51.100.1")
    renewed = await house.login(address="198.51.100.1", device=device)
    assert await house.knows(renewed)
    assert renewed.device not in ("", device)
    await house.users.add("eve@example.org", PASSWORD, Role.VIEWER)
    eves = (await house.login(email="eve@example.org", address="203.0.113.99")).device
    with pytest.raises(TooManyRequests):
        await house.login("guess", address="203.0.113.99", device=eves)
    for number in range(11):
        with pytest.raises(NotAuthenticated if number < 10 else TooManyRequests):
            await house.login("guess", address=f"203.0.113.{100 + number}", device=device)
    assert await house.knows(await house.login(address="198.51.100.2", device=renewed.device))


async def test_hashes_follow_the_recommended_parameters(house: House) -> None:
    """A hash that was made with others is made anew when its password comes."""
    weak = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    row = {"email": ADA, "role": None, "disabled": None, "password": weak}
    await house.database.run("change_user", row)
    await house.login()
    (user,) = await house.database.fetch("user_named", {"email": ADA, "address": HERE})
    assert user["password"].startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    await house.login()
