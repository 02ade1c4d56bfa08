"""Refusals of the API: each is a problem document, with the status that says who must act, and OpenAPI describes it."""

from collections.abc import Callable
from typing import Any

import aiohttp
import psycopg
import pytest
from tests.integration.server.running import Server

StartServer = Callable[..., Any]


@pytest.mark.parametrize(
    ("path", "table"), [("events/syscall", "fresh.syscall"), ("aggregates/syscall", "rollups.syscall")]
)
async def test_a_locked_table_is_no_fault_of_the_query(
    start_server: StartServer, database: str, path: str, table: str
) -> None:
    """If a query waits for a lock until it is cancelled, the answer is 503: the same query may succeed later."""
    async with start_server(statement_timeout_s=1.0) as server:
        with psycopg.connect(database) as blocker:
            blocker.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
            status, problem = await server.ask("GET", path)
        assert (status, problem["status"]) == (503, 503)
        assert "locked" in problem["detail"]
        assert (await server.ask("GET", path))[0] == 200


@pytest.mark.parametrize("length", [5000, 20_000, 200_000])
async def test_a_filter_of_any_length_is_refused_as_a_document(start_server: StartServer, length: int) -> None:
    """A filter that is too long is refused like other errors, also if its request's line cannot be read at all."""
    async with start_server() as server:
        status, kind, problem = await _asked(server, "events/syscall?where=" + "x" * length)
        assert (status, kind, problem["status"]) == (400, "application/problem+json", 400)
        assert "shorten" in problem["detail"]
        assert "\n" not in problem["detail"]


async def test_a_filter_of_the_greatest_length_is_taken(start_server: StartServer) -> None:
    """A filter's limit is in characters, whatever number of bytes they take in the address."""
    async with start_server() as server:
        where = f"comm = '{'😀' * 4087}'"
        assert len(where) == 4096
        assert (await server.ask("GET", "events/syscall", params={"where": where}))[0] == 200


async def test_every_refusal_is_described(start_server: StartServer) -> None:
    """OpenAPI describes, for each operation, the refusals with their status, and the document that they have."""
    refused = (
        ("GET", "events/syscall", "events/syscall?where=nonsense", 400),
        ("GET", "events/syscall", "events/syscall?machine=nonsense", 404),
        ("GET", "tasks/{task_id}", "tasks/nonsense", 404),
        ("GET", "probes", "probes", 503),
        ("POST", "tasks", "tasks", 413),
        ("POST", "tasks/{task_id}/stop", "tasks/nonsense/stop", 404),
        ("POST", "quarantine/{id}/retry", "quarantine/1/retry", 404),
    )
    async with start_server() as server:
        described = await server.get("openapi.json")
        properties = described["components"]["schemas"]["Problem"]["properties"]
        for method, path, asked, expected in refused:
            body = {"data": b" " * (65 << 10)} if expected == 413 else {}
            status, problem = await server.ask(method, asked, **body)
            assert status == expected, problem
            assert set(problem) == set(properties)
            assert _document(described, method, f"/api/v1/{path}", status) == {"$ref": "#/components/schemas/Problem"}
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                assert operation["x-role"] == "public" or _document(described, method, path, 401), path


@pytest.mark.parametrize(
    ("method", "asked", "body", "expected"),
    [
        ("GET", "events/syscall?limit=0&order=up", None, [{"parameter": "limit"}, {"parameter": "order"}]),
        ("GET", "events/syscall?pid=1", None, [{"parameter": "pid"}]),
        ("GET", "events/syscall?cursor=AAAA", None, [{"parameter": "cursor"}]),
        ("GET", "events/syscall?where=a%00b", None, [{"parameter": "where"}]),
        ("GET", "events/syscall?where=nonsense%3D1", None, [{"parameter": "where"}]),
        ("GET", "aggregates/syscall?by=nonsense", None, [{"parameter": "by"}]),
        ("POST", "tasks", {"probe": "nonsense"}, [{"pointer": "#/probe"}]),
        ("POST", "tasks", {"prob": "cuda"}, [{"pointer": "#/probe"}, {"pointer": "#/prob"}]),
        ("POST", "tasks", {"probe": "cuda", "options": {"a/b": "\0"}}, [{"pointer": "#/options/a~1b"}]),
        (
            "POST",
            "tasks",
            {"probe": "cuda", "target": {"pid": "x", "com": 1}, "duration": -1},
            [{"pointer": "#/target/pid"}, {"pointer": "#/target/com"}, {"pointer": "#/duration"}],
        ),
        ("POST", "join-tokens", {"labels": {"-": "x"}, "uses": 0}, [{"pointer": "#/uses"}, {"pointer": "#/labels/-"}]),
    ],
)
async def test_each_wrong_part_is_named(
    start_server: StartServer, method: str, asked: str, body: Any, expected: list[dict[str, str]]
) -> None:
    """A problem document names every wrong parameter, and every wrong field by a JSON pointer, with what is wrong."""
    async with start_server() as server:
        status, problem = await server.ask(method, asked, json=body)
        assert status == 400
        assert [{name: one[name] for name in one if name != "detail"} for one in problem["errors"]] == expected
        assert all(one["detail"] for one in problem["errors"])


@pytest.mark.parametrize(
    ("method", "asked", "body", "expected"),
    [
        ("GET", "events/syscall?machine=nobody", None, {"parameter": "machine"}),
        ("GET", "events/nonsense", None, {"parameter": "stream"}),
        ("GET", "states/syscall", None, {"parameter": "stream"}),
        ("GET", "probes?node=nobody", None, {"parameter": "node"}),
        ("POST", "tasks", {"probe": "cuda", "node": "nobody"}, {"pointer": "#/node"}),
        ("POST", "tasks/x/stop", None, {"parameter": "task_id"}),
        ("POST", "tasks/00000000-0000-4000-8000-000000000000/stop", None, {"parameter": "task_id"}),
        ("POST", "nodes/nobody/remove", None, {"parameter": "node"}),
        ("POST", "quarantine/x/drop", None, {"parameter": "id"}),
    ],
)
async def test_a_name_of_nothing_is_pointed_at(
    start_server: StartServer, method: str, asked: str, body: Any, expected: dict[str, str]
) -> None:
    """If nothing has a given name or id, the problem document says which parameter or field gave it."""
    async with start_server() as server:
        status, problem = await server.ask(method, asked, json=body)
        assert status == 404
        assert [{name: one[name] for name in one if name != "detail"} for one in problem["errors"]] == [expected]


async def test_what_was_meant_is_told(start_server: StartServer) -> None:
    """A parameter, field or choice that is not known is answered with the nearest one that is."""
    async with start_server() as server:
        for method, asked, body, meant in (
            ("GET", "events/syscall?machin=x", None, "(did you mean 'machine'?)"),
            ("GET", "events/syscall?order=ascc", None, "(did you mean 'asc'"),
            ("POST", "tasks", {"probe": "cuda", "target": {"com": "x"}}, "(did you mean 'comm'?)"),
        ):
            _, problem = await server.ask(method, asked, json=body)
            assert meant in problem["detail"]


def _document(described: Any, method: str, path: str, status: int) -> Any:
    answers = described["paths"][path][method.lower()]["responses"]
    answer = answers[str(status)]
    if "$ref" in answer:
        answer = described["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    assert answer["description"]
    return answer["content"]["application/problem+json"]["schema"]


async def _asked(server: Server, target: str) -> tuple[int, str, Any]:
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/{target}") as answer,
    ):
        return answer.status, answer.content_type, await answer.json(content_type=None)
