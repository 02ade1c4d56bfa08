"""The console's cookies: who may act by them, and from where."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.server.running import Server

from scope_server.accounts.csrf import HEADER

StartServer = Callable[..., Any]
EMAIL, PASSWORD = "ada@example.org", "correct horse battery"
OTHER = "https://other.example.org"
ORIGIN = "https://portal.example.org"
NEW = {"name": "made by a test"}


@pytest.fixture
async def server(start_server: StartServer) -> AsyncIterator[Server]:
    """A server with an account."""
    async with start_server(cors_origins=(ORIGIN,), proxies=("127.0.0.0/8",)) as started:
        user = {"email": EMAIL, "password": PASSWORD, "role": "admin"}
        assert (await started.ask("POST", "users", json=user))[0] == 201
        yield started


class Browser:
    """Keeps cookies, and sends them by itself."""

    def __init__(self, server: Server, jar: aiohttp.CookieJar | None = None) -> None:
        self.jar = aiohttp.CookieJar(unsafe=True) if jar is None else jar
        self._csrf = ""
        self._session = aiohttp.ClientSession(f"http://{server.http}", cookie_jar=self.jar)

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, **given: Any) -> tuple[int, Any]:
        """Status and answer."""
        async with self._session.request(method, f"/api/v1/{path}", **given) as answer:
            return answer.status, await answer.json(content_type=None)

    async def head(self, method: str, path: str, **given: Any) -> aiohttp.ClientResponse:
        """The answer without its body."""
        async with self._session.request(method, path, **given) as answer:
            await answer.read()
            return answer

    async def login(self) -> aiohttp.ClientResponse:
        """Logs in as the console does."""
        body = {"email": EMAIL, "password": PASSWORD, "cookie": True}
        answer = await self.head("POST", "/api/v1/auth/login", json=body, headers={HEADER: "console"})
        self._csrf = (await answer.json())["csrf_cookie"]
        return answer

    @property
    def proof(self) -> dict[str, str]:
        """The header of changes."""
        (value,) = (cookie.value for cookie in self.jar if cookie.key == self._csrf)
        return {HEADER: value}

    @property
    def values(self) -> dict[str, str]:
        """The cookies, by the part of their names that all installations have in common."""
        return {_common(cookie.key): cookie.value for cookie in self.jar}


def _common(name: str) -> str:
    return name.rpartition("_")[0]


async def test_no_script_reads_the_tokens(server: Server) -> None:
    """A login's tokens are in HttpOnly cookies and nowhere else; no other site makes a browser send any."""
    async with Browser(server) as browser:
        answer = await browser.login()
        assert answer.status == 200
        cookies = {_common(name): cookie for name, cookie in answer.cookies.items()}
        assert set(cookies) == {"scope_access", "scope_refresh", "scope_csrf", "scope_device"}
        for name, cookie in cookies.items():
            assert cookie["samesite"] == "Strict"
            assert bool(cookie["httponly"]) == (name != "scope_csrf")
            assert not cookie["secure"]  # plain text, on loopback
        assert cookies["scope_device"]["path"] == "/api/v1/auth"
        assert cookies["scope_refresh"]["path"] == "/api/v1/auth/refresh"
        assert await browser.ask("GET", "auth/me") == (200, {"name": EMAIL, "role": "admin"})


async def test_cookies_of_tls_stay_in_tls(server: Server) -> None:
    """Behind a proxy with TLS, cookies are Secure."""
    async with Browser(server) as browser:
        body = {"email": EMAIL, "password": PASSWORD, "cookie": True}
        headers = {HEADER: "console", "X-Forwarded-Proto": "https"}
        answer = await browser.head("POST", "/api/v1/auth/login", json=body, headers=headers)
        assert all(cookie["secure"] for cookie in answer.cookies.values())


async def test_a_change_needs_the_login_s_own_proof(server: Server) -> None:
    """Without the header, or with that of another login, a change by cookies is refused; reading needs none."""
    async with Browser(server) as browser, Browser(server) as other:
        await browser.login()
        await other.login()
        for wrong in ({}, {HEADER: ""}, {HEADER: "guess"}, other.proof):
            assert (await browser.ask("POST", "tokens", json=NEW, headers=wrong))[0] == 403, wrong
        assert (await browser.ask("GET", "tokens")) == (200, {"tokens": []})
        assert (await browser.ask("POST", "tokens", json=NEW, headers=browser.proof))[0] == 201


async def test_no_other_site_logs_a_browser_in(server: Server) -> None:
    """A login for cookies needs the header, which pages of other sites cannot send."""
    async with Browser(server) as browser:
        body = {"email": EMAIL, "password": PASSWORD, "cookie": True}
        status, problem = await browser.ask("POST", "auth/login", json=body)
        assert (status, browser.values) == (403, {})
        assert HEADER in problem["detail"]


async def test_a_login_goes_on_by_its_cookie(server: Server) -> None:
    """The refresh cookie gives the next tokens, with the header only; without a cookie, a field must be there."""
    async with Browser(server) as browser:
        await browser.login()
        before = browser.values
        assert (await browser.ask("POST", "auth/refresh", json={}))[0] == 403
        assert (await browser.ask("POST", "auth/refresh", json={}, headers={HEADER: "guess"}))[0] == 403
        status, tokens = await browser.ask("POST", "auth/refresh", json={}, headers=browser.proof)
        assert (status, tokens["access_token"], tokens["refresh_token"]) == (200, "", "")
        assert browser.values["scope_access"] != before["scope_access"]
        assert (await browser.ask("GET", "auth/me"))[0] == 200
    async with Browser(server) as stranger:
        status, problem = await stranger.ask("POST", "auth/refresh", json={})
        assert (status, "refresh_token" in problem["detail"]) == (400, True)


async def test_stolen_cookies_end_with_the_logout(server: Server) -> None:
    """Who logs out takes a thief's copies of the cookies with them, and the browser forgets its own, but not that its
    owner is no stranger there."""
    async with Browser(server) as browser, Browser(server) as thief:
        await browser.login()
        for cookie in browser.jar:
            thief.jar.update_cookies({cookie.key: cookie.value})
        assert (await thief.ask("GET", "auth/me"))[0] == 200
        proof = browser.proof
        assert (await browser.ask("POST", "auth/logout"))[0] == 403
        assert (await browser.ask("POST", "auth/logout", headers=browser.proof))[0] == 200
        assert list(browser.values) == ["scope_device"]
        assert (await thief.ask("GET", "auth/me"))[0] == 401
        assert (await thief.ask("POST", "auth/refresh", json={}, headers=proof))[0] == 401


async def test_two_servers_on_one_host(server: Server, start_server: StartServer, tmp_path: Path) -> None:
    """A browser sends a host's cookies to all its ports. Who signs in at one server stays signed in at the other, and
    out where they were not in; servers of one fleet take each other's logins."""
    other = {"socket": tmp_path / "other.sock", "state_dir": tmp_path / "other"}
    async with (
        start_server(**other, authority=tmp_path / "other" / "authority") as stranger,
        Browser(server) as browser,
        Browser(stranger, browser.jar) as beside,
    ):
        await browser.login()
        assert (await beside.ask("GET", "auth/me"))[0] == 401
        await beside.login()
        for each in (browser, beside):
            assert (await each.ask("GET", "auth/me"))[0] == 200
            assert (await each.ask("POST", "auth/refresh", json={}, headers=each.proof))[0] == 200
        assert (await beside.ask("POST", "auth/logout", headers=beside.proof))[0] == 200
        assert (await beside.ask("GET", "auth/me"))[0] == 401
        assert (await browser.ask("POST", "tokens", json=NEW, headers=browser.proof))[0] == 201
    async with start_server(**other) as replica, Browser(server) as browser, Browser(replica, browser.jar) as beside:
        await browser.login()
        assert (await beside.ask("GET", "auth/me"))[0] == 200


async def test_a_header_counts_before_cookies(server: Server) -> None:
    """A request that shows a token is its owner's; a wrong one is not mended by a cookie."""
    async with Browser(server) as browser:
        await browser.login()
        assert (await browser.ask("GET", "auth/me", headers={"Authorization": "Bearer nonsense"}))[0] == 401


async def test_other_origins(server: Server) -> None:
    """Only pages of configured origins may read answers, and never with cookies."""
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with Browser(server) as browser:
        for origin, status in ((ORIGIN, 204), (OTHER, 401)):
            answer = await browser.head("OPTIONS", "/api/v1/tasks", headers={"Origin": origin, **asks})
            assert answer.status == status
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if status == 204 else None)
            assert "Access-Control-Allow-Credentials" not in answer.headers
            answer = await browser.head("GET", "/api/v1/health", headers={"Origin": origin})
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if status == 204 else None)
        allowed = await browser.head("OPTIONS", "/api/v1/tasks", headers={"Origin": ORIGIN, **asks})
        assert HEADER not in allowed.headers["Access-Control-Allow-Headers"]
