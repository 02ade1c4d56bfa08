"""The real nginx with deploy/nginx before two real servers: people's TLS ends there, agents' passes through."""

import asyncio
import json
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web
from tests.fleet import to_server
from tests.integration.server.front import Addresses, Front
from tests.integration.server.records import STORED, Run, lined, rows
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import MACHINE, StandInAgent
from tests.integration.server.test_app import answers, recorded, uploading
from tests.ports import free_port

from scope_wire.keys import Anonymous, pem_of

StartServer = Callable[..., Any]
DOCKER = Path(__file__).parents[4] / "deploy/docker"


def nginx(folder: Path, servers: tuple[Server, Server]) -> Front:
    """nginx before these servers."""
    first, second = (Addresses(one.http, one.ingest, one.enrol) for one in servers)
    return Front(folder, (first, second), pem_of(servers[0].authority.certificate))


@pytest.fixture
async def two(start_server: StartServer, tmp_path: Path) -> AsyncIterator[tuple[AsyncExitStack, Server, Server]]:
    """Two servers of one database and one authority, on all addresses, so that they serve the API with HTTPS.

    The stack ends the second one.
    """
    everywhere = {"http": "0.0.0.0:0", "ingest": "0.0.0.0:0", "enrol": "0.0.0.0:0", "advertise": ("localhost",)}
    async with start_server(**everywhere) as first, AsyncExitStack() as stack:
        second = start_server(**everywhere, socket=tmp_path / "second.sock", state_dir=tmp_path / "second")
        yield stack, first, await stack.enter_async_context(second)


async def _until_up(front: Front) -> None:
    async def answers_() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", front.people)
        except OSError:
            return False
        writer.close()
        return True

    await until(answers_, bool)


async def test_people_and_agents_pass(two: tuple[AsyncExitStack, Server, Server], tmp_path: Path) -> None:
    """People reach the API with HTTP/2 and nginx's certificate; agents reach a server with their own, end to end.

    After the end of one server, both go on with the other.
    """
    stack, first, second = two
    with nginx(tmp_path, (first, second)) as front:
        await _until_up(front)
        token = first.authorization
        status, version, body = await asyncio.to_thread(front.curl, "/api/v1/health")
        assert (status, version, json.loads(body)) == (200, "2", {"healthy": True})
        assert (await asyncio.to_thread(front.curl, "/api/v1/nodes"))[0] == 401
        agent, through = StandInAgent(), replace(first, ingest=front.ingest)
        async with agent.attending(through) as channel, uploading(agent, channel) as call:
            run = await recorded(first if await _has(first) else second, agent)
            assert await answers(call, run.batch(1, rows(101), 101)) == [STORED]
            status, _, body = await asyncio.to_thread(front.curl, "/api/v1/nodes", "-H", f"Authorization: {token}")
            (found,) = json.loads(body)["nodes"]
            assert (status, found["machine_id"]) == (200, MACHINE)
        await stack.aclose()
        for _ in range(4):
            assert (await asyncio.to_thread(front.curl, "/api/v1/health"))[0] == 200
        async with StandInAgent().attending(through):
            assert await _has(first)


async def test_rows_come_as_they_are_stored(two: tuple[AsyncExitStack, Server, Server], tmp_path: Path) -> None:
    """The live tail passes, as server-sent events and over a WebSocket."""
    _, first, second = two
    with nginx(tmp_path, (first, second)) as front:
        await _until_up(front)
        async with lined(first.conninfo) as line:
            await line.send(Run().batch(1, rows(3)))
        tls = ssl.create_default_context(cafile=front.certificate)
        address = f"https://localhost:{front.people}/api/v1/live/syscall?since=2020-01-01"
        async with (
            asyncio.timeout(120),
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls), headers={"Authorization": first.authorization}
            ) as session,
            session.get(address) as events,
            session.ws_connect(address) as socket,
        ):
            assert len((await socket.receive_json())["rows"]) == 3
            while not (told := await events.content.readline()).startswith(b"data: "):
                assert events.status == 200
            assert len(json.loads(told.removeprefix(b"data: "))) == 3


async def _has(server: Server) -> bool:
    (node,) = (await server.get("nodes"))["nodes"]
    return bool(node["connected"])


async def _has_nodes(server: Server) -> bool:
    return bool((await server.get("nodes"))["nodes"])


async def test_strangers_do_not_pass(two: tuple[AsyncExitStack, Server, Server], tmp_path: Path) -> None:
    """What is not TLS ends at nginx; a client without a certificate is refused by the server itself."""
    _, first, second = two
    with nginx(tmp_path, (first, second)) as front:
        await _until_up(front)
        host, _, port = front.ingest.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100)
        assert await reader.read() == b""
        writer.close()
        roots = first.authority.trusted
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            async with to_server(front.ingest, Anonymous(roots)) as channel, StandInAgent().attending(first, channel):
                pass
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not await _has_nodes(first)


async def test_live_rows_are_not_held_back(two: tuple[AsyncExitStack, Server, Server], tmp_path: Path) -> None:
    """Rows of the live API reach a viewer while the answer goes on."""
    _, first, second = two
    with nginx(tmp_path, (first, second)) as front:
        await _until_up(front)
        context = ssl.create_default_context(cafile=str(front.certificate))
        reader, writer = await asyncio.open_connection("localhost", front.people, ssl=context)
        request = (
            f"GET /api/v1/live/syscall HTTP/1.1\r\nHost: localhost\r\nAuthorization: {first.authorization}\r\n\r\n"
        )
        writer.write(request.encode())
        assert b" 200 " in await reader.readline()
        agent = StandInAgent()
        async with agent.attending(first) as channel, uploading(agent, channel) as call:
            run = await recorded(first, agent)
            await answers(call, run.batch(1, rows(7), 7))
            async with asyncio.timeout(60):
                while b"event: rows" not in await reader.readline():
                    pass
        writer.close()


async def test_grafana_and_prometheus_pass(tmp_path: Path) -> None:
    """Grafana is below /grafana/; Prometheus takes samples, and nothing else, with the password that `init` made."""
    if os.geteuid():
        pytest.skip("init gives files to other users, for which it needs root")

    async def tell(request: web.Request) -> web.Response:
        return web.json_response([request.method, request.path_qs, request.host])

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", tell)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port := free_port())
    await site.start()
    (tmp_path / "init").write_bytes((DOCKER / "init").read_bytes())
    subprocess.run(["sh", tmp_path / "init", "scope.example.org"], check=True, capture_output=True)
    (tmp_path / "secrets").chmod(0o755)
    beside = dict.fromkeys(("http://grafana:3000", "http://prometheus:9090"), f"http://127.0.0.1:{port}")
    beside["/etc/nginx/tls/agents.htpasswd"] = str(tmp_path / "secrets/agents_htpasswd")
    authority = (tmp_path / "secrets/authority_public").read_bytes()
    nobody = Addresses("127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1")
    with Front(tmp_path, (nobody, nobody), authority, beside) as front:
        await _until_up(front)

        async def asked(path: str, *options: str) -> tuple[int, str]:
            status, _, body = await asyncio.to_thread(front.curl, path, *options)
            return status, body

        status, body = await asked("/grafana/d/scope-fleet?from=now-1h")
        assert (status, json.loads(body)) == (
            200,
            ["GET", "/grafana/d/scope-fleet?from=now-1h", f"localhost:{front.people}"],
        )
        write = "/prometheus/api/v1/write"
        password = (tmp_path / "secrets/agents_password").read_text().strip()
        for given, expected in ((f"agents:{password}x", 401), (f"agents:{password}", 200)):
            assert (await asked(write, "--user", given, "--data", "samples"))[0] == expected
        assert (await asked(write, "--data", "samples"))[0] == 401
        assert (await asked("/prometheus/api/v1/query?query=up", "--user", f"agents:{password}"))[0] == 502
    await runner.cleanup()
