"""Access tokens: what makes one valid."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import jwt
import pytest

from scope_server.accounts import access_token
from scope_server.accounts.access_token import LIFETIME, AccessTokens

USER, LOGIN = str(uuid4()), str(uuid4())


def secret_of(authority: str) -> Any:
    """The secrets of an authority."""
    return lambda purpose: f"{authority}: {purpose}".ljust(64).encode()


TOKENS = AccessTokens(secret_of("this"))


def at(monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """Moves the clock of what makes tokens."""

    class Other(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + ahead

    monkeypatch.setattr(access_token, "datetime", Other)


def made(ahead: timedelta) -> str:
    """A token that was made then."""
    with pytest.MonkeyPatch.context() as changed:
        at(changed, ahead)
        return TOKENS.make(USER, LOGIN)


def test_a_token_says_whose_login_it_belongs_to() -> None:
    """Each has a number of its own."""
    first, second = TOKENS.read(TOKENS.make(USER, LOGIN)), TOKENS.read(TOKENS.make(USER, LOGIN))
    assert first and second
    assert (first.user, first.login) == (USER, LOGIN)
    assert first.number != second.number


@pytest.mark.parametrize(
    ("ahead", "valid"),
    [
        (timedelta(seconds=20), True),
        (timedelta(minutes=2), False),
        (-LIFETIME + timedelta(seconds=20), True),
        (-LIFETIME - timedelta(seconds=20), True),
        (-LIFETIME - timedelta(minutes=1), False),
        (timedelta(days=-3), False),
    ],
    ids=["clock-ahead", "clock-far-ahead", "nearly-over", "over-by-a-clock", "over", "key-of-another-day"],
)
def test_a_token_is_valid_for_minutes(ahead: timedelta, valid: bool) -> None:
    """Clocks of servers may differ by half a minute."""
    assert (TOKENS.read(made(ahead)) is not None) == valid


def test_around_midnight_the_key_of_the_day_before_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys change each day; tokens made shortly before are valid to their end."""
    today = datetime.now(UTC)
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    until = midnight - today
    before = made(until - timedelta(minutes=5))
    after = made(until + timedelta(minutes=5))
    at(monkeypatch, until + timedelta(minutes=5))
    monkeypatch.setattr(jwt.api_jwt, "datetime", vars(access_token)["datetime"])
    assert TOKENS.read(before)
    assert jwt.get_unverified_header(after)["kid"] != jwt.get_unverified_header(before)["kid"]
    assert TOKENS.read(after)


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a valid token, but for these; None removes one."""
    now = datetime.now(UTC)
    right = {
        "iss": "scope",
        "aud": "scope-api",
        "sub": USER,
        "sid": LOGIN,
        "jti": "1",
        "iat": now,
        "exp": now + LIFETIME,
    }
    return {name: value for name, value in (right | changes).items() if value is not None}


def signed(body: dict[str, Any], algorithm: str = "HS256", authority: str = "this", day: str | None = None) -> str:
    """A token with these claims."""
    day = day or f"{datetime.now(UTC):%Y-%m-%d}"
    key: Any = secret_of(authority)(f"access tokens of {day}") if algorithm != "none" else None
    return jwt.encode(body, key, algorithm, headers={"kid": day})


def test_the_forger_of_these_tests_can_make_valid_ones() -> None:
    """So that what the next tests change is the reason for a refusal."""
    assert TOKENS.read(signed(claims()))


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "sid", "jti", "iat", "exp"])
def test_each_claim_is_required(claim: str) -> None:
    """A token without one of the claims is refused."""
    assert TOKENS.read(signed(claims(**{claim: None}))) is None


@pytest.mark.parametrize(
    "forged",
    [
        signed(claims(iss="another")),
        signed(claims(aud="another")),
        signed(claims(sub="1 OR 1")),
        signed(claims(sid="")),
        signed(claims(), algorithm="none"),
        signed(claims(), algorithm="HS512"),
        signed(claims(), authority="another"),
        signed(claims(), day="../../key"),
        signed(claims(), day="2020-01-01"),
        signed(claims())[:-2],
        "",
        "a.b.c",
        "....",
        "\udcff",
        "é" * 5000,
    ],
)
def test_forged_tokens_are_refused(forged: str) -> None:
    """Another authority, algorithm, audience, key or shape."""
    assert TOKENS.read(forged) is None
