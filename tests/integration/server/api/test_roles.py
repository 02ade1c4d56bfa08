"""Roles and rates: each role on each route, as the table declares them, over real connections."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.integration.server.running import Server

from scope_server.accounts.caller import Caller, Role
from scope_server.api import application
from scope_server.api.routing.callers import Authenticate
from scope_server.api.routing.route import Route
from scope_server.api.table import TABLE
from scope_server.errors import NotAuthenticated
from scope_server.limits import Rate

StartServer = Callable[..., Any]
FILLED = {
    "task_id": "00000000-0000-4000-8000-000000000000",
    "group_id": "00000000-0000-4000-8000-000000000000",
    "stream": "syscall",
    "id": "7",
    "node": "n",
    "name": "n",
    "email": "n",
}


def by_name(*_: object) -> Authenticate:
    """Callers whose token is the name of their role."""

    async def authenticate(request: web.Request) -> Caller:
        name = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if name not in list(Role):
            raise NotAuthenticated("no such token")
        return Caller(name, Role(name))

    return authenticate


@pytest.fixture(autouse=True)
def named_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers take the name of a role as a token."""
    monkeypatch.setattr("scope_server.app.by_accounts", by_name)


async def test_each_role_on_each_route(start_server: StartServer) -> None:
    """A route is open to its role and higher ones; lower ones get 403, and callers without a login 401."""
    async with start_server() as server, aiohttp.ClientSession() as session:
        for route in TABLE:
            for role in (None, *Role):
                status, problem = await _asked(session, server, route, role)
                if route.role is None or (role and role.includes(route.role)):
                    assert status not in (401, 403, 405, 429, 500), (route.name, role, problem)
                else:
                    assert (status, problem["status"]) == ((403, 403) if role else (401, 401)), route.name
                    assert role is None or f"needs the role {route.role}" in problem["detail"]


async def test_what_is_no_route_needs_a_login(start_server: StartServer) -> None:
    """Strangers do not learn which paths and methods there are; callers with a login do."""
    async with start_server() as server:
        for method, path, known in (("GET", "nonsense", 404), ("DELETE", "tasks", 405), ("POST", "storage", 405)):
            for token, status in (("", 401), ("viewer", known)):
                headers = {"Authorization": f"Bearer {token}"}
                assert (await server.ask(method, path, headers=headers))[0] == status


async def test_too_many_calls_are_refused(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller over the rate is told when to come again; other callers, and other routes, are not concerned."""
    slow = [replace(route, rate=Rate(0.1, 3)) if route.path.endswith("/nodes") else route for route in TABLE]
    monkeypatch.setattr(application, "TABLE", slow)
    async with start_server() as server, aiohttp.ClientSession() as session:
        (nodes,) = (route for route in slow if route.path.endswith("/nodes"))
        assert [(await _asked(session, server, nodes, Role.VIEWER))[0] for _ in range(4)] == [200, 200, 200, 429]
        assert (await _asked(session, server, nodes, Role.ADMIN))[0] == 200
        headers = {"Authorization": "Bearer viewer"}
        async with session.get(f"http://{server.http}{nodes.path}", headers=headers) as answer:
            assert (answer.status, int(answer.headers["Retry-After"]) > 100) == (429, True)
        assert (await server.ask("GET", "storage", headers=headers))[0] == 200


async def _asked(session: aiohttp.ClientSession, server: Server, route: Route, role: Role | None) -> tuple[int, Any]:
    address = f"http://{server.http}{route.path.format_map(FILLED)}"
    headers = {"Authorization": f"Bearer {role}"} if role else {}
    async with session.request(route.method, address, headers=headers) as answer:
        is_json = answer.content_type.endswith("json")
        return answer.status, await answer.json(content_type=None) if is_json else None
