"""Sessions: which agents are accepted, when a session ends, and how nodes are shown."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from tests.integration.server.running import Server, node, until
from tests.integration.server.stand_in_agent import MACHINE, StandInAgent

from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_server.session import service, session, sessions
from scope_server.store.postgres import PrivatePostgres

StartServer = Callable[..., Any]
Code = grpc.StatusCode


async def refusal(server: Server, method: str, *requests: Any) -> tuple[Code, str]:
    """Opens a stream with these messages; returns the status and details with which it ends."""
    async with server.channel(MACHINE) as channel:
        call: Any = getattr(SessionStub(channel), method)()
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it may end while we write
            for request in requests:
                await call.write(request)
        return await call.code(), await call.details()


def hello(agent: StandInAgent, **node: Any) -> session_pb2.AttendRequest:
    message = agent.hello()
    for name, value in node.items():
        setattr(message.node, name, value)
    return session_pb2.AttendRequest(hello=message)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine_id": "short"}, "node.machine_id"),
        ({"machine_id": "F" * 32}, "node.machine_id"),
        ({"machine_id": "0" * 31 + "\0"}, "node.machine_id"),
        ({"installation_id": ""}, "node.installation_id"),
        ({"installation_id": "x" * 10_000}, "node.installation_id"),
        ({"hostname": "a\0b"}, "node.hostname"),
        ({"hostname": "a" * 256}, "node.hostname"),
        ({"kernel": "\0"}, "node.kernel"),
        ({"architecture": "a" * 64}, "node.architecture"),
        ({"agent_version": "a" * 64}, "node.agent_version"),
        ({"cpus": (1 << 32) - 1}, "node.cpus"),
        ({"memory_bytes": (1 << 64) - 1}, "node.memory_bytes"),
    ],
)
async def test_a_hello_is_checked(start_server: StartServer, changes: dict[str, Any], named: str) -> None:
    """A Hello with an invalid field is refused, and registers no machine; the error names the field."""
    async with start_server() as server:
        code, details = await refusal(server, "Attend", hello(StandInAgent(), **changes))
        assert code is Code.INVALID_ARGUMENT
        assert named in details
        assert server.query("SELECT count(*) FROM store.machines") == [(0,)]


async def test_a_stream_begins_with_a_hello(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose first message is no Hello, or that sends none in time, is refused."""
    monkeypatch.setattr(service, "_HELLO_S", 0.3)
    async with start_server() as server:
        first = session_pb2.AttendRequest(report=session_pb2.Report())
        assert await refusal(server, "Attend", first) == (
            Code.INVALID_ARGUMENT,
            "hello: the first message must be a Hello",
        )
        assert await refusal(server, "Attend") == (Code.INVALID_ARGUMENT, "hello: no message within 0.3 s")


async def test_a_connected_agent_is_shown(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API shows whether an agent is connected, its last report, its clock and its spool."""
    monkeypatch.setattr("scope_server.session.seen.EVERY_S", 0.2)
    agent = StandInAgent()
    agent.every_s, agent.ahead_ns = 0.1, 3600 * 10**9
    async with start_server() as server:
        async with agent.attending(server):
            found = await until(lambda: node(server), lambda found: found["spool"] is not None)
            assert (found["connected"], found["hostname"], found["spool"]["bytes"]) == (True, "stand-in", 11)
            assert abs(found["clock_ahead_ns"] - 3600 * 10**9) < 60 * 10**9
            seen = datetime.fromisoformat(found["last_seen"])
            await until(lambda: node(server), lambda found: datetime.fromisoformat(found["last_seen"]) > seen)
        await until(lambda: node(server), lambda found: not found["connected"])


async def test_a_silent_agent_is_disconnected(start_server: StartServer) -> None:
    """An agent that sends nothing is disconnected about 15 s after its last message."""
    agent = StandInAgent()
    agent.every_s = None
    async with start_server() as server, agent.attending(server):
        began = time.monotonic()
        await asyncio.sleep(5)
        assert (await node(server))["connected"]
        await until(lambda: node(server), lambda found: not found["connected"])
        assert 10 < time.monotonic() - began < 25
        await until(lambda: _status(agent), lambda status: status is Code.UNAVAILABLE)
        assert "nothing was heard from the agent for 15 s" in agent.details


async def _status(agent: StandInAgent) -> Code | None:
    return agent.status


async def test_an_agent_says_when_it_reports_again(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that does nothing may be silent for as long as it said, and no longer."""
    monkeypatch.setattr(session, "REPORT_EVERY_S", 0.5)
    monkeypatch.setattr(session, "IDLE_REPORT_EVERY_S", 3.0)
    monkeypatch.setattr(session, "LATE_S", 0.5)
    agent = StandInAgent()
    agent.every_s, agent.next_ms = None, 3_600_000
    async with start_server() as server, agent.attending(server):
        began = time.monotonic()
        await until(lambda: node(server), lambda found: not found["connected"])
        assert time.monotonic() - began > 3.0
        await until(lambda: _status(agent), lambda status: status is Code.UNAVAILABLE)
        assert "nothing was heard from the agent for 3.5 s" in agent.details


async def test_two_agents_with_one_machine_id_are_told_apart(start_server: StartServer) -> None:
    """While an agent is connected, another with its machine id is refused with advice, and shown as a conflict."""
    first, second = StandInAgent("original"), StandInAgent("copy")
    async with start_server() as server:
        async with first.attending(server):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async with second.attending(server):
                    pass
            assert refused.value.code() is Code.ALREADY_EXISTS
            for said in ("'original'", "'copy'", "join again with a new token"):
                assert said in (refused.value.details() or "")
            found = await node(server)
            assert (found["connected"], found["hostname"], found["conflict"]["hostname"]) == (True, "original", "copy")
        await until(lambda: node(server), lambda found: not found["connected"])
        async with second.attending(server):
            found = await node(server)
            assert (found["connected"], found["hostname"]) == (True, "copy")


async def test_a_conflict_is_forgotten(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict is no longer shown once the other agent has not tried for some time."""
    monkeypatch.setattr(sessions, "CONFLICT_S", 0.3)
    async with start_server() as server, StandInAgent().attending(server):
        with pytest.raises(grpc.aio.AioRpcError):
            async with StandInAgent("copy").attending(server):
                pass
        await until(lambda: node(server), lambda found: found["conflict"] is None)


async def test_an_agent_that_comes_again_replaces_its_old_session(start_server: StartServer) -> None:
    """An agent that reconnects replaces its old session, because the old connection may be broken."""
    agent, again = StandInAgent().quiet(), StandInAgent()
    again.installation = agent.installation
    async with start_server() as server, agent.attending(server), again.attending(server):
        await until(lambda: _status(agent), lambda status: status is Code.UNAVAILABLE)
        assert agent.details == "the same agent has connected again"
        assert (await node(server))["connected"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server waits for a report of a connected agent for less than a second."""
    monkeypatch.setattr(session, "ANSWER_S", 0.5)


@pytest.mark.usefixtures("soon")
async def test_a_copied_installation_is_refused(start_server: StartServer) -> None:
    """While an agent answers, another process of its installation is refused: with advice, shown and counted."""
    agent = StandInAgent("original")
    copy = replaced(agent)
    copy.hostname, agent.life, copy.life, agent.every_s = "copy", b"one", b"two", 0.1
    async with start_server() as server, agent.attending(server):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with copy.attending(server):
                pass
        assert refused.value.code() is Code.ALREADY_EXISTS
        for said in ("'original'", "'copy'", "same installation", "state directory"):
            assert said in (refused.value.details() or "")
        taken = session_pb2.UploadRequest(hello=copy.hello())
        assert (await refusal(server, "Upload", taken))[0] is Code.UNAVAILABLE
        found = await node(server)
        assert (found["connected"], found["hostname"], found["conflict"]["hostname"]) == (True, "original", "copy")
        async with aiohttp.ClientSession(connector=server.local()) as client:
            metrics = await (await client.get(f"http://{server.http}/metrics")).text()
        assert "scope_server_conflicts_total 1.0" in metrics


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("life", "every_s"), [(b"one", 3600.0), (b"two", None)])
async def test_an_agent_returns(start_server: StartServer, life: bytes, every_s: float | None) -> None:
    """The same process that connects again, and another one if the first no longer answers, replaces the session."""
    agent = StandInAgent().quiet()
    again = replaced(agent)
    agent.life, again.life, agent.every_s = b"one", life, every_s
    async with start_server() as server, agent.attending(server), again.attending(server):
        await until(lambda: _status(agent), lambda status: status is Code.UNAVAILABLE)
        assert agent.details == "the same agent has connected again"


async def test_sessions_are_bounded(start_server: StartServer) -> None:
    """An agent beyond the limit of sessions is refused until another one disconnects."""
    other = StandInAgent("other", "f" * 32)
    async with start_server(sessions=1) as server:
        async with StandInAgent().attending(server):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async with other.attending(server):
                    pass
            assert refused.value.code() is Code.RESOURCE_EXHAUSTED
        await until(lambda: node(server), lambda found: not found["connected"])
        async with other.attending(server):
            pass


async def test_records_need_a_session(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Upload without an Attend of the same installation is refused; an Upload ends with its session."""
    monkeypatch.setattr(sessions, "_ATTEND_FIRST_S", 0.3)
    agent, copy = StandInAgent(), StandInAgent("copy")
    first = session_pb2.UploadRequest(hello=agent.hello())
    async with start_server() as server:
        code, details = await refusal(server, "Upload", first)
        assert (code, "call Attend" in details) == (Code.UNAVAILABLE, True)
        async with agent.attending(server) as channel:
            stub: Any = SessionStub(channel)  # its type demands an iterator of requests
            upload = stub.Upload()
            await upload.write(first)
            await upload.initial_metadata()
            taken = session_pb2.UploadRequest(hello=copy.hello())
            assert (await refusal(server, "Upload", taken))[0] is Code.ALREADY_EXISTS
            async with replaced(agent).attending(server):
                assert await upload.code() is Code.UNAVAILABLE


def replaced(agent: StandInAgent) -> StandInAgent:
    """A copy of the agent, not yet connected."""
    fresh = StandInAgent(agent.hostname, agent.machine_id)
    fresh.installation = agent.installation
    return fresh


async def test_the_server_is_up_before_its_database(start_server: StartServer) -> None:
    """Without its database, a server listens and answers 503; when the database starts, everything works."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        late = PrivatePostgres(Path(folder) / "pg")
        try:
            async with start_server(prepared=False, database=late.conninfo()) as server:
                status, problem = await server.ask("GET", "tasks")
                assert status == 503
                assert problem["detail"].startswith("the database cannot be reached: ")
                assert (await server.ask("GET", "health"))[0] == 503
                parts = await server.get("server")
                assert not parts["healthy"]
                assert parts["database"].startswith("the database cannot be reached: ")
                assert (await refusal(server, "Attend", hello(StandInAgent())))[0] is Code.UNAVAILABLE
                await asyncio.to_thread(late.start)
                await until(lambda: server.ask("GET", "health"), lambda answer: answer[0] == 200)
                async with StandInAgent().attending(server):
                    assert (await node(server))["connected"]
        finally:
            late.stop(immediate=True)
