"""The console's cookies: tokens that no script can read, what shows an owner's browser at a login, likewise, and the
proof of changes, which the console's own scripts can read."""

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from scope_server.accounts import devices
from scope_server.accounts.access_token import LIFETIME
from scope_server.accounts.logins import VALID

_EMPTY = ("", "", "")


@dataclass(frozen=True)
class Cookies:
    """The cookies of an installation.

    A browser sends a host's cookies to all its ports. So that two servers on one host do not take each other's for
    theirs, the names say whose they are.

    Args:
        installation: as `Accounts.installation`.
    """

    installation: str

    @property
    def csrf(self) -> str:
        """Name of the cookie with the proof of changes."""
        return self._named("csrf")

    def of_login(self, access: str, refresh: str, csrf: str) -> "Put":
        """The cookies of a login."""
        return Put(
            (
                _Cookie(self._named("access"), access, "/api/v1", int(LIFETIME.total_seconds())),
                _Cookie(self._named("refresh"), refresh, "/api/v1/auth/refresh", int(VALID.total_seconds())),
                _Cookie(self.csrf, csrf, "/", int(VALID.total_seconds()), is_read=True),
            )
        )

    def of_device(self, device: str) -> "Put":
        """The cookie of a browser in which somebody has logged in; it outlives the login."""
        return Put((_Cookie(self._named("device"), device, "/api/v1/auth", int(devices.VALID.total_seconds())),))

    def forgotten(self) -> "Put":
        """The browser is to forget the cookies of its login."""
        return self.of_login(*_EMPTY)

    def access_in(self, sent: Mapping[str, str]) -> str:
        """The access token that a browser sends; empty: none."""
        return sent.get(self._named("access"), "")

    def refresh_in(self, sent: Mapping[str, str]) -> str:
        """The refresh token, likewise."""
        return sent.get(self._named("refresh"), "")

    def device_in(self, sent: Mapping[str, str]) -> str:
        """What shows that somebody has logged in there before, likewise."""
        return sent.get(self._named("device"), "")

    def csrf_in(self, sent: Mapping[str, str]) -> str:
        """The proof of changes, likewise."""
        return sent.get(self.csrf, "")

    def _named(self, name: str) -> str:
        return f"scope_{name}_{self.installation}"


@dataclass(frozen=True)
class _Cookie:
    name: str
    value: str
    path: str
    seconds: int
    is_read: bool = False  # by the console's scripts


@dataclass(frozen=True)
class Put:
    """What an answer puts into the browser."""

    cookies: tuple[_Cookie, ...]

    def into(self, answer: web.StreamResponse, request: web.Request) -> None:
        """Adds the headers. Off plain text, the cookies are sent over TLS only."""
        for cookie in self.cookies:
            answer.set_cookie(
                cookie.name,
                cookie.value,
                path=cookie.path,
                max_age=cookie.seconds if cookie.value else 0,
                httponly=not cookie.is_read,
                samesite="Strict",
                secure=request.secure,
            )
