"""Connections to the API are bounded: peers that send nothing keep nobody away, and too many requests are refused."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import psycopg
import pytest
from tests.integration.server.running import Server

StartServer = Callable[..., Any]
PATIENCE_S = 30


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
