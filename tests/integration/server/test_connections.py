"""Connections to the API are bounded: peers that send nothing keep nobody away, and too many requests are refused."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from tests.half_open import many_files
from tests.integration.server.running import Server

from scope_server.api.serving import MOST_CONNECTIONS

StartServer = Callable[..., Any]
PATIENCE_S = 30
IDLE = 10_007
EMAIL, PASSWORD = "ada@example.org", "correct horse battery"


async def get(server: Server, path: str) -> tuple[int, Any]:
    """Status and JSON of an answer, over a connection of its own."""
    headers = {"Authorization": server.authorization}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True), headers=headers) as session,
        session.get(f"http://{server.http}/api/v1/{path}") as answer,
    ):
        return answer.status, await answer.json(content_type=None)


async def test_connections_that_send_nothing_keep_nobody_away(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of too many connections, the oldest without a whole request is closed, whatever part it has sent."""
    async with start_server() as server:
        monkeypatch.setattr("scope_server.api.serving.MOST_CONNECTIONS", 5)
        host, _, port = server.http.rpartition(":")
        head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: {server.authorization}\r\n".encode()
        slow = []
        for part in (b"", head, head + b"Content-Length: 100\r\n\r\n{") * 3:
            slow.append(await asyncio.open_connection(host, int(port)))
            slow[-1][1].write(part)
        assert (await get(server, "tasks"))[0] == 200
        for reader, _ in slow[:5]:
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
        for _, writer in slow:
            writer.close()


async def test_ten_thousand_idle_connections(start_server: StartServer) -> None:
    """Of 10,000 connections that say nothing, half a request, or nothing more after an answer, the server keeps as many
    as it may: neither its descriptors nor its memory grow with the others, and people log in and read meanwhile."""
    begun = b"GET /health HTTP/1.1\r\nHost: x\r\n"
    async with start_server() as server:
        user = {"email": EMAIL, "password": PASSWORD, "role": "viewer"}
        assert (await server.ask("POST", "users", json=user))[0] == 201
        assert await _login(server) == 200
        files, memory = _files(), _memory_bytes()
        host, _, port = server.http.rpartition(":")
        with many_files(IDLE + 2 * MOST_CONNECTIONS), ExitStack() as opened:
            for number in range(IDLE):
                idle = opened.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
                idle.sendall((b"", begun, begun + b"\r\n")[number % 3])
                await asyncio.sleep(0)
            assert await _login(server) == 200
            assert (await get(server, "nodes"))[0] == 200
            kept, grown = _files() - files - IDLE, _memory_bytes() - memory
            print(f"{kept} descriptors, {grown / IDLE / 1024:.1f} KiB a connection, at both ends")
            assert 0 < kept <= MOST_CONNECTIONS + 50  # pools of the database and of the test's client grow, too
            assert grown < 50 << 20  # 20 MiB were measured; 80 if all were kept
        async with asyncio.timeout(PATIENCE_S):
            while _files() > files + 50:
                await asyncio.sleep(0.1)


async def _login(server: Server) -> int:
    """The status of a login over a connection of its own."""
    body = {"email": EMAIL, "password": PASSWORD}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        session.post(f"http://{server.http}/api/v1/auth/login", json=body) as answer,
    ):
        return answer.status


def _files() -> int:
    """Open files of this process, which is also the server's."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _memory_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_too_many_requests_at_a_time(
    start_server: StartServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all connections have requests, a new one is told so; it works again afterwards."""
    async with start_server() as server:
        monkeypatch.setattr("scope_server.api.serving.MOST_CONNECTIONS", 3)
        async with await psycopg.AsyncConnection.connect(database) as locking:
            await locking.execute("LOCK TABLE store.tasks IN ACCESS EXCLUSIVE MODE")
            waiting = [asyncio.create_task(get(server, "tasks")) for _ in range(3)]
            async with asyncio.timeout(PATIENCE_S):
                while (refused := await get(server, "openapi.json"))[0] == 200:
                    await asyncio.sleep(0.02)
            status, problem = refused
            assert (status, problem["title"]) == (503, "Too many connections")
            assert "takes no more; try again" in problem["detail"]
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200] * 3
        assert (await get(server, "openapi.json"))[0] == 200
