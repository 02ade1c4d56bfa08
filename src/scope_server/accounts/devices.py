"""What a program or browser keeps of a login, so that its owner is no stranger there later, at whatever address.

OWASP's device cookies: https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies
"""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

VALID = timedelta(days=365)
_AUDIENCE, _ISSUER, _ALGORITHM = "scope-device", "scope", "HS256"
_CLAIMS = ("iss", "aud", "sub", "jti", "exp")


class Devices:
    """Makes and reads devices' values. A value allows nothing: who shows it may try a few passwords of one account.

    Args:
        secret: 32 bytes for a purpose, which nobody else can know.
    """

    def __init__(self, secret: Callable[[str], bytes]) -> None:
        self._secret = secret

    def make(self, user: str) -> str:
        """A value for who has shown the password of an account."""
        expires = datetime.now(UTC) + VALID
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": user, "jti": uuid.uuid4().hex, "exp": expires}
        return jwt.encode(claims, self._key(), _ALGORITHM)

    def number(self, value: str, user: str) -> str:
        """The number of a device on which an account has logged in; empty: the value does not show that."""
        try:
            claims: dict[str, Any] = jwt.decode(
                value,
                self._key(),
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                issuer=_ISSUER,
                options={"require": list(_CLAIMS)},
            )
        except (jwt.PyJWTError, ValueError):  # ValueError: it is no text that can be signed
            return ""
        return str(claims["jti"]) if claims["sub"] == user else ""

    def _key(self) -> bytes:
        return self._secret("devices")
