"""Injection: hostile texts in every parameter, field of a body and header, from the table of routes."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from tests.integration.server.api.test_roles import FILLED
from tests.integration.server.running import Server
from tests.integration.server.test_bad_input import raw
from yarl import URL

from scope_server.api.routing.route import Route
from scope_server.api.table import TABLE
from scope_server.limits import LocalLimits

StartServer = Callable[..., Any]
TEXTS = [
    "'; DROP TABLE store.users; --",
    '"); DROP SCHEMA store CASCADE; -- %(limit)s %s {} $1 \\',
    "a\0b",
    "\x1b[2J\u202e<script>alert(1)</script>",
    "\ud800",
]
HEADERS = [
    "User-Agent",
    "Accept",
    "Cookie",
    "Origin",
    "X-Forwarded-For",
    "X-Csrf-Token",
    "Last-Event-ID",
    "Cache-Control",
]
TEXT = "a@example.org"
SAMPLES: dict[str, Any] = {"string": TEXT, "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
OBJECTS = (
    "SELECT count(*), sum(hashtext(relname)) FROM pg_class WHERE relnamespace::regnamespace::text IN ('store', 'scope')"
)
PATIENCE_S = 60

Asked = tuple[str, str, Any]  # method, path with its query, body


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """No caller is told to come again later."""

    async def take(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(LocalLimits, "take", take)


async def test_every_parameter_and_field(start_server: StartServer) -> None:
    """Whatever it is, the answer is no fault of the server, and the tables are there."""
    async with start_server() as server, aiohttp.ClientSession() as session:
        before = server.query(OBJECTS)
        faults = []
        for route in TABLE:
            for method, target, body in _hostile(route):
                status = await _status(session, server, method, target, body)
                if status in (405, 500):
                    faults.append((status, method, target, body))
        assert faults == []
        assert server.query(OBJECTS) == before
        assert (await server.ask("GET", "health"))[0] == 200


async def test_every_header(start_server: StartServer) -> None:
    """Of a request that reads, one that is stored with its program, and one without a valid token."""
    login = b'{"email": "a@example.org", "password": "wrong"}'
    async with start_server() as server:
        before = server.query(OBJECTS)
        for header in HEADERS:
            for text in TEXTS:
                sent = f"{header}: ".encode() + text.encode("utf-8", "surrogatepass").replace(b"\0", b"")
                assert (await raw(server, "GET", "/api/v1/nodes", b"", sent))[0] < 500, sent
                assert (await raw(server, "POST", "/api/v1/auth/login", login, sent, shown=False))[0] < 500, sent
        assert server.query(OBJECTS) == before


def _hostile(route: Route) -> Iterator[Asked]:
    """Requests of a route in which one text is hostile, and all others are as they should be."""
    query = dict.fromkeys(_required(route.query.model_json_schema()), TEXT)
    schema = route.body.model_json_schema()
    body = {name: _sample(schema, name) for name in _required(schema)} if "body" in route.given else None
    for text in TEXTS:
        for name in route.path_model.model_fields:
            yield route.method, _target(route, {name: text}, query), body
        for name in route.query.model_json_schema().get("properties", {}):
            yield route.method, _target(route, {}, query | {name: text}), body
        for name in schema.get("properties", {}) if "body" in route.given else ():
            wrong = {"object": {text: text}, "array": [text]}.get(_type(schema, name), text)
            yield route.method, _target(route, {}, query), {**(body or {}), name: wrong}


def _required(schema: dict[str, Any]) -> list[str]:
    return list(schema.get("required", []))


def _type(schema: dict[str, Any], name: str) -> str:
    own = schema["properties"][name]
    kinds = [one.get("type", "object") for one in own.get("anyOf", [own])]
    return str(kinds[0])


def _sample(schema: dict[str, Any], name: str) -> Any:
    return SAMPLES[_type(schema, name)]


def _target(route: Route, wrong: dict[str, str], query: dict[str, str]) -> str:
    path = route.path.format(**{name: _quoted(text) for name, text in (FILLED | wrong).items()})
    return path + "?" + "&".join(f"{name}={_quoted(text)}" for name, text in query.items())


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


async def _status(session: aiohttp.ClientSession, server: Server, method: str, target: str, body: Any) -> int:
    url = URL(f"http://{server.http}{target}", encoded=True)
    headers = {"Authorization": server.authorization}
    async with asyncio.timeout(PATIENCE_S), session.request(method, url, json=body, headers=headers) as answer:
        return answer.status  # of a stream, the rest is not waited for
