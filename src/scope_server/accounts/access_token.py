"""Access tokens: JWTs, valid for minutes, which say whose login a request belongs to.

They are signed with keys that the servers of a fleet have in common without exchanging any: each is derived from the
authority's private key and the day, so they rotate by themselves.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

LIFETIME = timedelta(minutes=15)
_LEEWAY = timedelta(seconds=30)  # of the clocks of servers
_AUDIENCE, _ISSUER, _ALGORITHM = "scope-api", "scope", "HS256"
_CLAIMS = ("iss", "aud", "sub", "sid", "jti", "iat", "exp")


@dataclass(frozen=True)
class AccessToken:
    """What a valid token says.

    Attributes:
        user: id of the account.
        login: id of the login.
        number: of the token (`jti`).
    """

    user: str
    login: str
    number: str


class AccessTokens:
    """Makes and reads access tokens.

    Args:
        secret: 32 bytes for a purpose, which nobody else can know.
    """

    def __init__(self, secret: Callable[[str], bytes]) -> None:
        self._secret = secret

    def make(self, user: str, login: str) -> str:
        """A token that is valid from now on."""
        now = datetime.now(UTC)
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": user,
            "sid": login,
            "jti": uuid.uuid4().hex,
            "iat": now,
            "exp": now + LIFETIME,
        }
        day = _day(now)
        return jwt.encode(claims, self._key(day), _ALGORITHM, headers={"kid": day})

    def read(self, text: str) -> AccessToken | None:
        """What a token says; None if it is not valid now."""
        try:
            day = jwt.get_unverified_header(text).get("kid")
            if day not in _days():
                return None
            claims: dict[str, Any] = jwt.decode(
                text,
                self._key(day),
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                issuer=_ISSUER,
                leeway=_LEEWAY,
                options={"require": list(_CLAIMS)},
            )
            return AccessToken(str(uuid.UUID(claims["sub"])), str(uuid.UUID(claims["sid"])), str(claims["jti"]))
        except (jwt.PyJWTError, ValueError):  # ValueError: an id is none
            return None

    def _key(self, day: str) -> bytes:
        return self._secret(f"access tokens of {day}")


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"


def _days() -> set[str]:
    """The days whose keys may have signed a token that is valid now."""
    now = datetime.now(UTC)
    return {_day(now - LIFETIME - _LEEWAY), _day(now), _day(now + _LEEWAY)}
