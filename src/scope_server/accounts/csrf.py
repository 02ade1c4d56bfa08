"""Proof that a change made with cookies comes from the console, and not from another site in the same browser."""

import hmac
from collections.abc import Callable

from scope_server.errors import Forbidden

HEADER = "X-Scope-CSRF"
_HOW = f"a change made with cookies needs the header {HEADER} with the value of the cookie that the login named"


class CsrfTokens:
    """One token a login, derived from the login's id: a page of another site can neither read nor make it.

    Args:
        secret: 32 bytes for a purpose, see `AccessTokens`.
    """

    def __init__(self, secret: Callable[[str], bytes]) -> None:
        self._secret = secret

    def of(self, login: str) -> str:
        """The token of a login."""
        return hmac.digest(self._secret("csrf tokens"), login.encode(), "sha256").hex()

    def require(self, login: str, shown: str) -> None:
        """Checks what a request shows.

        Raises:
            Forbidden: it is not the login's.
        """
        require_same(self.of(login), shown)


def require_same(expected: str, shown: str) -> None:
    """Checks what a request shows in the header.

    Raises:
        Forbidden: it is another value, or none.
    """
    if not shown or not hmac.compare_digest(expected.encode(), shown.encode(errors="replace")):
        raise Forbidden(_HOW)
