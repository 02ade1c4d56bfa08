"""The server as a whole: from an agent's streams to the API's answers, and how it starts and ends."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import psycopg
import pytest
from tests.integration.server.records import Run, envelope, rows, stacks
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import RUNNING, StandInAgent, shown

from scope_bpf.probes import probes
from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.record_pb2 import Record
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_server.app import serve
from scope_server.errors import AddressTaken, InvalidSettings, SchemaConflict
from scope_server.session.reports import Reports
from scope_server.settings import Settings

StartServer = Callable[..., Any]
STORED, REFUSED = session_pb2.VERDICT_STORED, session_pb2.VERDICT_REFUSED


@asynccontextmanager
async def uploading(server: Server, agent: StandInAgent, channel: grpc.aio.Channel) -> AsyncIterator[Any]:
    """An Upload of a machine that attends."""
    call: Any = SessionStub(channel).Upload(metadata=shown(server))  # type: ignore[call-arg]
    await call.write(session_pb2.UploadRequest(hello=agent.hello()))
    yield call
    call.cancel()


async def answers(call: Any, *records: Record | bytes) -> list[int]:
    """Sends records; the verdict on each."""
    for position, record in enumerate(records):
        await call.write(envelope(record, position))
    found: dict[int, int] = {}
    async for reply in call:
        found |= {answer.position: answer.verdict for answer in reply.answers}
        if len(found) == len(records):
            break
    return [found[position] for position in range(len(records))]


async def recorded(server: Server, agent: StandInAgent) -> Run:
    """A task that runs, and its run as the agent records it."""
    run = Run(UUID(await server.start()))
    agent.change(str(run.task_id), RUNNING, run_id=str(run.run_id))
    return run


async def test_from_a_stream_to_an_answer(start_server: StartServer) -> None:
    """Records are answered when they are stored; events, books and losses are what was sent."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(server, agent, channel) as call:
        run = await recorded(server, agent)
        lost = {("ring", "ring_full"): 7}
        sent = (run.start(), run.batch(1, rows(101)), run.batch(2, rows(103, 101), 211, lost))
        assert await answers(call, *sent, b"damaged") == [STORED, STORED, STORED, REFUSED]
        page = await server.get("events", "syscall", limit=1000)
        assert sorted(event["arg0"] for event in page["events"]) == list(range(204))
        assert {event["task_id"] for event in page["events"]} == {str(run.task_id)}
        assert page["losses"] == [{"place": "ring", "reason": "ring_full", "count": 7}]
        (stream,) = (await server.task(str(run.task_id)))["streams"]
        assert stream == {
            "stream": "syscall",
            "emitted": 211,
            "stored": 204,
            "lost": [{"place": "ring", "reason": "ring_full", "count": 7}],
            "under_way": 0,
        }


async def test_what_was_not_answered_is_stored_by_the_next_server(start_server: StartServer) -> None:
    """A server that ends during a load only answers stored records; resent records are not stored twice."""
    agent = StandInAgent()
    batches: list[Record] = []
    async with start_server(stop_deadline_s=0.3) as server:
        async with agent.attending(server) as channel, uploading(server, agent, channel) as call:
            run = await recorded(server, agent)
            batches += [run.batch(n + 1, rows(97, 97 * n), 97 * (n + 1)) for n in range(11)]
            assert await answers(call, *batches[:3]) == [STORED] * 3
        blocker = await asyncio.to_thread(psycopg.connect, server.conninfo)
        blocker.execute("LOCK TABLE store.accounts IN SHARE MODE")
        lasting = contextlib.AsyncExitStack()
        channel = await lasting.enter_async_context(agent.attending(server))
        call = await lasting.enter_async_context(uploading(server, agent, channel))
        unanswered = asyncio.create_task(answers(call, *batches[3:]))
        await until(lambda: metric(server, "scope_server_held_bytes"), lambda bytes_: bytes_ > 0)
    with pytest.raises(grpc.aio.AioRpcError):
        await unanswered
    await lasting.aclose()
    await asyncio.to_thread(blocker.close)
    async with start_server() as server, agent.attending(server) as channel, uploading(server, agent, channel) as call:
        assert await answers(call, *batches) == [STORED] * 11
        assert server.query("SELECT count(*), count(DISTINCT arg0) FROM scope.syscall") == [(11 * 97, 11 * 97)]
        (stream,) = (await server.task(str(run.task_id)))["streams"]
        assert (stream["emitted"], stream["stored"], stream["under_way"]) == (11 * 97, 11 * 97, 0)


async def metric(server: Server, name: str) -> float:
    return (await metrics(server))[name]


async def metrics(server: Server) -> dict[str, float]:
    """Each sample by its name with its labels."""
    import aiohttp

    headers = {"Authorization": server.authorization}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{server.http}/metrics", headers=headers) as answer:
            text = await answer.text()
        async with session.get(f"http://{server.http}/metrics") as answer:
            assert answer.status == 401
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.MULTILINE)}


async def test_metrics_count_and_never_fall(start_server: StartServer) -> None:
    """Sessions, refusals with reasons, and stored data; only with the token."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server) as channel, uploading(server, agent, channel) as call:
            run = await recorded(server, agent)
            refused = await answers(call, run.batch(1, rows(3), arrow_ipc=b"x"), b"damaged", run.batch(2, rows(5)))
            assert refused == [REFUSED, REFUSED, STORED]
            with pytest.raises(grpc.aio.AioRpcError):
                async with StandInAgent("copy").attending(server):
                    pass
            found = await metrics(server)
            assert found["scope_server_sessions"] == 1
            assert found["scope_server_conflicts_total"] == 1
            assert found['scope_server_refused_records_total{code="corrupt"}'] == 1
            assert found['scope_server_refused_records_total{code="damaged"}'] == 1
            assert found["scope_server_quarantined_records"] == 1
            assert found["scope_server_partitions"] == 2
            assert found["scope_server_database_up"] == 1
        await until(lambda: metric(server, "scope_server_sessions"), lambda sessions: sessions == 0)
        later = await metrics(server)
        totals = [name for name in found if "_total" in name]
        assert len(totals) >= 5
        assert all(later[name] >= found[name] for name in totals)


async def test_metrics_need_no_database(start_server: StartServer) -> None:
    """What the server knows itself is told."""
    async with start_server(prepared=False, database="host=/nonsense dbname=none") as server:
        found = await metrics(server)
        assert (found["scope_server_sessions"], found["scope_server_database_up"]) == (0, 0)


async def test_health_is_whether_it_can_write(start_server: StartServer) -> None:
    """A database that answers and does not take rows is not well."""
    async with start_server() as server:
        with psycopg.connect(server.conninfo) as blocker:
            blocker.execute("LOCK TABLE store.pulse IN ACCESS EXCLUSIVE MODE")
            status, health = await server.ask("GET", "health")
        assert (status, health["database"], health["agents"]) == (503, "ok", 0)
        assert "did not write" in health["ingest"]
        assert (await server.ask("GET", "health"))[0] == 200


async def test_held_memory_is_told_by_stack(start_server: StartServer) -> None:
    """The latest state of each stack, the largest first."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(server, agent, channel) as call:
        run = await recorded(server, agent)
        held = stacks(["main;small", "main;large"], comm=["x", "x"], live_count=[1, 3], live_bytes=[100, 700])
        assert await answers(call, run.batch(1, held, stream="cuda_live")) == [STORED]
        found = await server.get("states", "cuda_live", pid=4711, node="stand-in")
        assert [(leak["stack"], leak["live_bytes"]) for leak in found["groups"]] == [
            ("main;large", 700),
            ("main;small", 100),
        ]
        assert (await server.get("states", "cuda_live", pid=4712))["groups"] == []


async def test_every_stream_of_states_is_asked_in_the_same_way(start_server: StartServer) -> None:
    """Each stream of states answers and is described; other streams are refused with the names of these."""
    gauges = {stream.name for probe in probes().values() for stream in probe.public_streams if stream.gauge}
    async with start_server() as server:
        paths = (await server.get("openapi.json"))["paths"]
        assert {path.removeprefix("/states/") for path in paths if path.startswith("/states/")} == gauges
        for stream in gauges:
            assert await server.get("states", stream) == {"groups": []}
        for stream in ("syscall", "nonsense"):
            status, problem = await server.ask("GET", f"states/{stream}")
            assert status == 404
            assert problem["detail"].startswith(f"there is no stream of states '{stream}'")
            assert problem["detail"].endswith(f"; there are: {', '.join(sorted(gauges))}")


async def test_addresses_that_are_taken_are_named(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second server on the same ports says which is taken."""
    monkeypatch.setattr("scope_server.listen._WAIT_S", 0.3)
    async with start_server() as server:
        with pytest.raises(AddressTaken, match=f"cannot listen on {server.http} for the API"):
            async with start_server(http=server.http):
                pass
        with pytest.raises(AddressTaken, match=f"cannot listen on {server.ingest} for ingest"):
            async with start_server(ingest=server.ingest):
                pass


async def test_an_address_that_is_being_left_is_waited_for(start_server: StartServer) -> None:
    """A server that was killed may still hold its ports for a moment."""
    with socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(("127.0.0.1", 0)) as ingest:
        taken = {name: f"127.0.0.1:{one.getsockname()[1]}" for name, one in (("http", http), ("ingest", ingest))}
        starting = start_server(**taken)
        entering = asyncio.create_task(starting.__aenter__())
        await asyncio.sleep(0.7)
        assert not entering.done()
        http.close()
        await asyncio.sleep(0.5)
        ingest.close()
        server = await entering
        assert {"http": server.http, "ingest": server.ingest} == taken
        await starting.__aexit__(None, None, None)


@pytest.mark.parametrize("address", ["0.0.0.0:1", "127.0.0.1", "example.org:80", "127.0.0.1:x", "127.0.0.1:99999"])
def test_only_loopback_is_listened_on(address: str, tmp_path: Path) -> None:
    """Until there is mutual TLS, an address that others could reach is refused."""
    for name in ("http", "ingest"):
        with pytest.raises(InvalidSettings, match=f"{name}: "):
            Settings(database="", token_file=tmp_path / "token", **{name: address})


@pytest.mark.parametrize(("text", "mode"), [("", 0o600), ("short", 0o600), ("long enough for a token", 0o644)])
async def test_a_token_file_that_is_none_is_told(
    start_server: StartServer, tmp_path: Path, text: str, mode: int
) -> None:
    """At once, with what to do about it."""
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(InvalidSettings, match=r"token_file: .*(remove the file|chmod 600)"):
        async with asyncio.timeout(20), start_server():
            pass


async def test_work_that_ends_unexpectedly_ends_the_server(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server ends with an error in the log; its supervisor restarts it, which is better than a server without a
    part."""

    async def fail(_: Reports) -> None:
        await asyncio.sleep(0.2)
        raise ArithmeticError("no such luck")

    monkeypatch.setattr(Reports, "run", fail)
    settings = Settings(database, tmp_path / "token", http="127.0.0.1:0", ingest="127.0.0.1:0")
    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(serve(settings, asyncio.Event()), 60)
    assert isinstance(ended.value.exceptions[0], ArithmeticError)
    assert "background work failed" in caplog.text


async def test_a_newer_database_is_left_alone(database: str, start_server: StartServer) -> None:
    """A server that is older than its database's schema says so, and ends."""
    async with start_server():
        pass
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO store.schema_versions VALUES (9999)")
    with pytest.raises(ExceptionGroup) as ended:
        async with start_server():
            pass
    assert isinstance(ended.value.exceptions[0], SchemaConflict)
