"""Bad input: the API answers with a problem document, never with a 500, and changes nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.server.running import Server
from tests.integration.server.stand_in_agent import StandInAgent

StartServer = Callable[..., Any]
DIGITS = "9" * 5000
ANY_ID = "00000000-0000-4000-8000-000000000000"


@asynccontextmanager
async def unchanged(start_server: StartServer) -> AsyncIterator[Server]:
    """A server with an agent. Asserts afterwards that no task, run or wish was added."""
    agent = StandInAgent()
    statement = "SELECT (SELECT count(*) FROM store.tasks), (SELECT count(*) FROM store.runs)"
    async with start_server() as server, agent.attending(server):
        before = server.query(statement)
        yield server
        assert server.query(statement) == before
        assert (await server.ask("GET", "health"))[0] == 200
        assert len(agent.wishes) == 1


def check(answer: tuple[int, Any], statuses: tuple[int, ...], said: str = "", of: str = "") -> None:
    status, problem = answer
    assert status in statuses, (of, answer)
    assert problem["status"] == status
    assert problem["title"]
    assert said in problem["detail"], of


QUERIES: list[tuple[str, str, str]] = [
    ("events/syscall", "where=comm%3D%27a%00b%27", "where"),
    ("events/syscall", "where=", "where, at its end"),
    ("events/syscall", "where=nonsense%3D1", "no column 'nonsense'"),
    ("events/syscall", "where=arg0%3BDROP+TABLE+x%3D1", "no column 'arg0;DROP'"),
    ("events/syscall", "where=ret%3D1%3B--", "ret takes a whole number"),
    ("events/syscall", "where=pid%3Dx", "pid takes a whole number"),
    ("events/syscall", "where=pid%3D%D9%A3", "pid takes a whole number"),
    ("events/syscall", f"where=ret%3D{'9' * 900}", "ret takes a whole number"),
    ("events/syscall", "where=comm%3E1", "'>' is for numbers"),
    ("events/syscall", "where=" + "(" * 3000, "nested"),
    ("events/syscall", f"where=ret+in+({','.join('7' * 2100)})", "where: it has more than"),
    ("events/syscall", "where=pid%3D1&where=pid%3D2", "twice"),
    ("events/syscall", "machine=%00", "machine"),
    ("events/syscall", "a%00b=1", "NUL"),
    ("events/syscall", "pid=1", "no parameter 'pid'"),
    ("events/syscall", "nonsense=1", "nonsense"),
    ("events/syscall", "limit=0", "limit"),
    ("events/syscall", "limit=-1", "limit"),
    ("events/syscall", "limit=1001", "limit"),
    ("events/syscall", f"limit={DIGITS}", "limit"),
    ("events/syscall", "limit=", "limit"),
    ("events/syscall", "order=up", "order"),
    ("events/syscall", "order=stored&cursor=AAAA", "cursor"),
    ("events/syscall", "since=now", "since"),
    ("events/syscall", "since=0001-01-01T00:00:00%2B14:00", "since"),
    ("events/syscall", "until=9999-12-31T23:59:59-14:00", "until"),
    ("events/syscall", "cursor=AAAA", "cursor"),
    ("events/syscall", "cursor=%00", "cursor"),
    ("states/cuda_live", "hours=2147483647", "hours"),
    ("states/cuda_live", "hours=0", "hours"),
    ("states/cuda_live", "pid=9223372036854775808", "pid"),
    ("states/cuda_live", f"pid={DIGITS}", "pid"),
    ("states/cuda_live", "node=%00", "node"),
    ("states/cuda_live", "limit=0", "limit"),
    ("states/cuda_live", "limit=1.5", "limit"),
    ("states/cuda_live", "nonsense=1", "nonsense"),
    ("states/gpu", "pid=1", "belong to no process"),
    ("tasks", "state=%00", "state"),
    ("tasks", "state=asleep", "state"),
    ("tasks", "nonsense=1", "nonsense"),
    ("nodes", "nonsense=1", "nonsense"),
    ("probes", "node=%00", "node"),
    ("health", "nonsense=1", "nonsense"),
    ("openapi.json", "nonsense=1", "nonsense"),
]


async def test_parameters_are_checked(start_server: StartServer) -> None:
    """Every resource checks the type, bounds and characters of its parameters, and refuses unknown ones."""
    async with unchanged(start_server) as server:
        for path, query, said in QUERIES:
            check(await raw(server, "GET", f"/api/v1/{path}?{query}"), (400,), said, query)


async def test_numbers_that_no_row_has_find_nothing(start_server: StartServer) -> None:
    """A filter with a value outside its column's range matches no row."""
    async with unchanged(start_server) as server:
        for where in (
            "pid=9223372036854775808",
            "pid=-1",
            "nr=18446744073709551615",
            "comm=%ED%A0%80",
            "cpu=4294967296",
        ):
            status, answer = await raw(server, "GET", f"/api/v1/events/syscall?where={where.replace('=', '%3D')}")
            assert (status, answer["events"]) == (200, []), where


async def test_ids_that_are_none_are_not_found(start_server: StartServer) -> None:
    """Any other text in place of an id in a path is a 404."""
    async with unchanged(start_server) as server:
        for given in ("%00", "x", "%ff", "%ED%A0%80", "a" * 6000, DIGITS, "%7B" + ANY_ID + "%7D", ANY_ID, "..%2f.."):
            check(await raw(server, "GET", f"/api/v1/tasks/{given}"), (404,))
            check(await raw(server, "POST", f"/api/v1/tasks/{given}/stop"), (404,))
            check(await raw(server, "GET", f"/api/v1/events/{given}"), (404,))
            check(await raw(server, "GET", f"/api/v1/states/{given}"), (404,))


CURSORS: list[Any] = [
    ["2026-01-01T00:00:00+00:00", float("inf"), 0],
    ["2026-01-01T00:00:00+00:00", 1, float("nan")],
    ["2026-01-01T00:00:00+00:00", 10**30, 0],
    ["2026-01-01T00:00:00+00:00", 1, 1 << 63],
    ["2026-01-01T00:00:00+00:00", "1", "x"],
    ["9999-12-31T23:59:59.999999+00:00", 1, 1],
    ["9999-12-31T23:59:59.999999-14:00", 1, 1],
    ["0001-01-01T00:00:00+14:00", 1, 1],
    ["infinity", 1, 1],
    ["\0", 1, 1],
    ["\ud800", 1, 1],
    [1, 2, 3],
    [[], {}, None],
    [None] * 4,
    {},
    "x",
    7,
    [[[[[[]]]]]],
    ["1:1:", "", 0, 0, -2],
    ["1:1:", "", 0, 0, 1 << 31],
    ["1:1:", "", 1 << 63, 0, -1],
    ["1:1:", "", 0, "0", -1],
    ["1:1", "", 0, 0, -1],
    ["0:0:", "", 0, 0, -1],
    ["5:1:", "", 0, 0, -1],
    ["1:9:8,7", "", 0, 0, -1],
    ["1:9:7,7", "", 0, 0, -1],
    ["1:9:9", "", 0, 0, -1],
    ["1:9:", "9:1:", 0, 0, -1],
    ["1:9:", None, 0, 0, -1],
    ["1:99999999999999999999:", "", 0, 0, -1],
    ["1:9999999999999999999:", "", 0, 0, -1],
    ["1:1:'; DROP TABLE store.batches; --", "", 0, 0, -1],
]


async def test_cursors_are_checked(start_server: StartServer) -> None:
    """An invented cursor is refused or, if it is valid, returns no rows."""
    import base64

    async with unchanged(start_server) as server:
        for order in ("asc", "desc", "stored"):
            for place in CURSORS:
                cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
                status, answer = await raw(server, "GET", f"/api/v1/events/syscall?order={order}&cursor={cursor}")
                if status == 200:
                    assert answer["events"] == [], place
                else:
                    check((status, answer), (400,), "cursor")


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e300", "1e999", "0", "-1", "true", '"5"', "[]", "{}", DIGITS, "1e-300"]

BODIES: list[tuple[str, str]] = [
    *((f'{{"probe": "syscalls", "duration": {number}}}', "") for number in NUMBERS if number != "1e-300"),
    *((f'{{"probe": "syscalls", "target": {{"pid": {number}}}}}', "") for number in NUMBERS),
    ('{"probe": "syscalls", "target": {"pid": 9223372036854775808}}', "target.pid"),
    ('{"probe": "syscalls", "target": {"pid": 2147483648}}', "target.pid"),
    ('{"probe": "syscalls", "target": {"pid": 0}}', "target.pid: 0 is no process; leave it out"),
    ('{"probe": "syscalls", "target": {"pid": -1}}', "target.pid: -1 is no process; leave it out"),
    ('{"probe": "syscalls", "target": {"comm": ""}}', "target.comm: it is empty; leave it out"),
    ('{"probe": "syscalls", "options": {"names": []}}', "option 'names': [] names nothing; leave the option out"),
    ('{"probe": "syscalls", "options": {"names": " , "}}', "option 'names': ' , ' names nothing; leave the option out"),
    ('{"probe": "syscalls", "target": {"comm": "a\\u0000b"}}', "NUL"),
    ('{"probe": "syscalls", "target": {"comm": "\\ud800"}}', "UTF-8"),
    ('{"probe": "syscalls", "target": {"comm": 7}}', "target.comm"),
    ('{"probe": "syscalls", "target": {"comm": "sixteen letters!"}}', "target.comm"),
    ('{"probe": "syscalls", "target": {"nonsense": 1}}', "nonsense"),
    ('{"probe": "syscalls", "target": []}', ""),
    ('{"probe": "syscalls", "target": "x"}', "target"),
    ('{"probe": "syscalls", "options": {"nonsense": 1}}', "nonsense"),
    ('{"probe": "syscalls", "options": {"mode": []}}', "mode"),
    ('{"probe": "syscalls", "options": {"mode": {"a": 1}}}', "mode"),
    ('{"probe": "syscalls", "options": {"mode": null}}', "mode"),
    ('{"probe": "syscalls", "options": {"interval_ms": 1e300}}', "interval_ms"),
    ('{"probe": "syscalls", "options": {"interval_ms": true}}', "interval_ms"),
    ('{"probe": "syscalls", "options": {"a\\u0000b": 1}}', "NUL"),
    ('{"probe": "syscalls", "options": [1]}', "options"),
    ('{"probe": "syscalls", "options": 7}', "options"),
    ('{"probe": "syscalls", "node": "a\\u0000b"}', "NUL"),
    ('{"probe": "syscalls", "node": "\\ud800"}', "UTF-8"),
    ('{"probe": "syscalls", "node": 7}', "node"),
    ('{"probe": "syscalls", "nonsense": 1}', "nonsense"),
    ('{"probe": "syscalls", "\\ud800": 1}', "UTF-8"),
    ('{"probe": "no\\u0000ne"}', "NUL"),
    ('{"probe": "none"}', "no probe named 'none'"),
    ('{"probe": 7}', "probe"),
    ('{"probe": null}', "probe"),
    ("{}", ""),
    ("[]", "object"),
    ("7", "object"),
    ('"x"', "object"),
    ("null", "object"),
    ("{", "JSON"),
    ("", ""),
    (DIGITS, ""),
    ("[" * 30_000, ""),
    ('{"a":' * 10_000, ""),
    ('{"options": ' + "[" * 100 + "]" * 100 + "}", "deep"),
]


async def test_bodies_are_checked(start_server: StartServer) -> None:
    """A body that is no valid task is refused, and creates no task; the error says what is wrong."""
    async with unchanged(start_server) as server:
        for body, said in BODIES:
            answer = await raw(server, "POST", "/api/v1/tasks", body.encode())
            check(answer, (400,), said, body)


async def test_bodies_are_utf8_bounded_and_plain(start_server: StartServer) -> None:
    """Bodies that are not UTF-8, too large or compressed are refused."""
    async with unchanged(start_server) as server:
        check(await raw(server, "POST", "/api/v1/tasks", b'{"probe": "\xff"}'), (400,), "JSON")
        check(await raw(server, "POST", "/api/v1/tasks", '{"probe": "x"}'.encode("utf-16")), (400,), "JSON")
        check(await raw(server, "POST", "/api/v1/tasks", b"[" * 100_000), (413,))
        check(await raw(server, "POST", "/api/v1/tasks", b" " * (65 << 10)), (413,))
        for encoding in ("gzip", "deflate", "br", "nonsense"):
            packed = await raw(server, "POST", "/api/v1/tasks", b"no such thing", f"Content-Encoding: {encoding}")
            check(packed, (400, 415))
        stop = await raw(server, "POST", f"/api/v1/tasks/{ANY_ID}/stop", b'{"nonsense": 1}')
        check(stop, (400,), "nonsense")


async def test_methods_and_paths_that_there_are_not(start_server: StartServer) -> None:
    """An unknown method (405) or path (404) gets a problem document."""
    async with unchanged(start_server) as server:
        check(await raw(server, "DELETE", "/api/v1/tasks"), (405,))
        check(await raw(server, "PUT", f"/api/v1/tasks/{ANY_ID}"), (405,))
        check(await raw(server, "GET", f"/api/v1/tasks/{ANY_ID}/stop"), (405,))
        check(await raw(server, "GET", "/api/v2/tasks"), (404,))
        check(await raw(server, "GET", "/api/nowhere"), (404,))


async def test_headers_are_any_bytes(start_server: StartServer) -> None:
    """A header that is not UTF-8 causes no server error; such a token is refused."""
    async with unchanged(start_server) as server:
        status, _ = await raw(server, "GET", "/api/v1/tasks", b"", b"X-Any: \xff\xfe")
        assert status == 200
        for token in (b"\xff\xfe", b"Bearer \xed\xa0\x80", b"Bearer ", b"Basic x", "Bearer ü".encode()):
            answer = await raw(server, "GET", "/api/v1/tasks", b"", b"Authorization: " + token, shown=False)
            check(answer, (401,), "log in")


async def raw(
    server: Server, method: str, target: str, body: bytes = b"", header: bytes | str = b"", *, shown: bool = True
) -> tuple[int, Any]:
    """Sends these bytes, which no HTTP client would send; returns status and JSON."""
    host, _, port = server.http.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {target} HTTP/1.1".encode(), f"Host: {server.http}".encode(), b"Connection: close"]
    lines += [f"Authorization: {server.authorization}".encode()] if shown else []
    lines += [f"Content-Length: {len(body)}".encode()] if body or method != "GET" else []
    lines += [header.encode() if isinstance(header, str) else header] if header else []
    writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
    try:
        head, _, content = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status = int(head.split()[1])
    return status, json.loads(content)


@pytest.mark.parametrize("sent", [b"", b"GET /api/v1/tasks HTTP/1.1\r\nHost: x\r\n"])
async def test_a_connection_without_a_request_is_closed(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """A connection on which no whole request comes in time is closed, so that its descriptor is free again."""
    monkeypatch.setattr("scope_server.api.serving.IDLE_S", 0.2)
    async with start_server() as server:
        host, _, port = server.http.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()


@pytest.mark.parametrize("body", ['{"probe": "syscalls", "duration": 1e-300}', '{"probe": "syscalls"}'])
async def test_what_is_good_is_taken(start_server: StartServer, body: str) -> None:
    """Valid bodies are accepted."""
    async with start_server() as server, StandInAgent().attending(server):
        assert (await raw(server, "POST", "/api/v1/tasks", body.encode()))[0] == 201
