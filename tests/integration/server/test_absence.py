"""A real agent that was away, or is refused, or has a wrong clock, and a real server."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.fleet import of_person, signed_days_ago, to_agent
from tests.integration.server.running import Server, node, until
from tests.integration.server.test_members import joined

from scope_agentd.app import serve
from scope_agentd.identity.membership import Membership
from scope_agentd.session import link
from scope_agentd.settings import Settings
from scope_cli.agent_status import print_status
from scope_server.identity import register

StartServer = Callable[..., Any]
CLOCK = Path(__file__).parents[2] / "chaos" / "clock.c"
DAY_S = 86400
HEALTHY = health_pb2.HealthCheckResponse


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "_READ_EVERY_S", 0.2)
    monkeypatch.setattr(link, "ASK_EVERY_S", 0.2)


@asynccontextmanager
async def agent(state: Path, port: int) -> AsyncIterator[tuple[Settings, str]]:
    """A running agent: its settings and its control address."""
    settings = Settings(state, control="127.0.0.1:0", metrics=f"127.0.0.1:{port}")
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(settings, stop, address.set_result))
    done, _ = await asyncio.wait([running, address], return_when=asyncio.FIRST_COMPLETED)
    if running in done:
        await running
    try:
        yield settings, address.result()
    finally:
        stop.set()
        await running


async def connected(server: Server) -> None:
    """Waits for the session of the only machine."""

    async def nodes() -> Any:
        return (await server.get("nodes"))["nodes"]

    await until(nodes, lambda found: bool(found) and found[0]["connected"])


async def health(server: Server, address: str) -> Any:
    """What the agent's health service says."""
    async with to_agent(address, of_person(server.authority)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(), timeout=20)).status


async def asked(port: int, path: str) -> str:
    """What the agent answers on its HTTP port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_forty_five_days(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """Its certificate has expired meanwhile. The agent gets a new one by itself, and is the same machine."""
    async with start_server() as server:
        with signed_days_ago(monkeypatch, 45):
            member = await joined(server, tmp_path / "agent")
        async with agent(tmp_path / "agent", port) as (_, address):
            await connected(server)
            assert (await node(server))["machine_id"] == member.machine_id
            assert await health(server, address) == HEALTHY.SERVING
        assert Membership(tmp_path / "agent").credentials.holder.key == member.credentials.holder.key


async def test_a_machine_that_needs_a_new_token(
    start_server: StartServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    port: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says so in its status, health and metrics, and goes on; with a token, it is the same machine again."""
    state = tmp_path / "agent"
    async with start_server() as server:
        with signed_days_ago(monkeypatch, 30 + 91):
            member = await joined(server, state)
        async with agent(state, port) as (settings, address):
            assert await asyncio.to_thread(print_status, settings) == 1
            await until(lambda: asyncio.sleep(0, Membership(state).fleet.needs_token), bool)
            capsys.readouterr()
            assert await asyncio.to_thread(print_status, settings) == 1
            said = capsys.readouterr().out
            with pytest.raises(grpc.aio.AioRpcError):  # nobody can accept its certificate, which has expired
                await health(server, address)
            assert said.startswith("needs a new token: the certificate has expired on "), said
            assert f"machine {member.machine_id}, certificate until " in said
            unhealthy = await asked(port, "/health")
            assert unhealthy.startswith("HTTP/1.1 503 ") and "\nneeds a new token: the certificate has" in unhealthy
            assert re.search(r"^scope_agent_needs_token 1\.0$", await asked(port, "/metrics"), re.MULTILINE)
        assert print_status(settings) == 1
        await joined(server, state)
        async with agent(state, port) as (settings, address):
            await connected(server)
            await until(lambda: asyncio.to_thread(print_status, settings), lambda status: status == 0)
            assert (await asked(port, "/health")).endswith("\nhealthy\n")
            assert "connected to " in capsys.readouterr().out
            assert (await node(server))["machine_id"] == member.machine_id
            assert await health(server, address) == HEALTHY.SERVING


async def test_a_revoked_agent_runs_on(start_server: StartServer, tmp_path: Path, port: int) -> None:
    """It is not healthy, but deletes nothing; removed and joined again, it goes on."""
    state = tmp_path / "agent"
    async with start_server() as server:
        member = await joined(server, state)
        async with agent(state, port) as (_, address):
            await connected(server)
            await server.ask("POST", f"nodes/{member.machine_id}/revoke")
            await until(lambda: health(server, address), lambda status: status == HEALTHY.NOT_SERVING, 30)
        again = Membership(state)
        assert again.credentials.certificate == member.credentials.certificate
        assert "was revoked" in again.fleet.needs_token


@pytest.mark.parametrize("days", [-45, 45, 400])
async def test_a_wrong_clock_of_a_machine(start_server: StartServer, tmp_path: Path, port: int, days: int) -> None:
    """Certificates count by the server's clock: an agent whose clock is far off joins, and stays connected."""
    shifted, ahead, state = tmp_path / "clock.so", tmp_path / "ahead", tmp_path / "agent"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shifted, CLOCK], check=True)
    ahead.write_text(str(days * DAY_S))
    async with start_server() as server:
        status, made = await server.ask("POST", "join-tokens", json={"valid": 600})
        assert status == 201
        words = ["--state-dir", str(state), "--control", "127.0.0.1:0", "--metrics", f"127.0.0.1:{port}"]
        environment = {
            **os.environ,
            "LD_PRELOAD": str(shifted),
            "CHAOS_CLOCK": str(ahead),
            "SCOPE_JOIN_TOKEN": made["token"],
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scope_cli.main", "agentd", "--join", server.enrol, *words, env=environment
        )
        try:
            await connected(server)
            (found,) = (await server.get("nodes"))["nodes"]
            assert abs(found["clock_ahead_ns"] / 1e9 / DAY_S - days) < 0.1
        finally:
            process.terminate()
            await process.wait()
