"""The console's cookies: tokens that no script can read, and the proof of changes, which its own scripts can."""

from dataclasses import dataclass

from aiohttp import web

from scope_server.accounts.access_token import LIFETIME
from scope_server.accounts.logins import VALID

ACCESS, REFRESH, CSRF = "scope_access", "scope_refresh", "scope_csrf"
_PATHS = {ACCESS: "/api/v1", REFRESH: "/api/v1/auth/refresh", CSRF: "/"}
_SECONDS = {ACCESS: LIFETIME, REFRESH: VALID, CSRF: VALID}


@dataclass(frozen=True)
class Cookies:
    """What an answer puts into the browser.

    Attributes:
        values: by name; empty: the browser is to forget them.
    """

    values: tuple[tuple[str, str], ...]

    def put(self, answer: web.StreamResponse, request: web.Request) -> None:
        """Adds the headers. Off plain text, the cookies are sent over TLS only."""
        for name, value in self.values:
            answer.set_cookie(
                name,
                value,
                path=_PATHS[name],
                max_age=int(_SECONDS[name].total_seconds()) if value else 0,
                httponly=name != CSRF,
                samesite="Strict",
                secure=request.secure,
            )


def of_login(access: str, refresh: str, csrf: str) -> Cookies:
    """The cookies of a login."""
    return Cookies(((ACCESS, access), (REFRESH, refresh), (CSRF, csrf)))


FORGOTTEN = of_login("", "", "")
