"""The whole server: from an agent's streams to the API's answers, its start and its end."""

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import grpc
import psycopg
import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, Run, envelope, rows, stacks
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import RUNNING, StandInAgent

from scope_bpf.probes import probes
from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.record_pb2 import Record
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_server.app import serve
from scope_server.errors import AddressTaken, InvalidSettings, SchemaConflict
from scope_server.session.reports import Reports
from scope_server.settings import Settings
from scope_wire.unix_socket import listening

StartServer = Callable[..., Any]
STORED, REFUSED = session_pb2.VERDICT_STORED, session_pb2.VERDICT_REFUSED


@asynccontextmanager
async def uploading(agent: StandInAgent, channel: grpc.aio.Channel) -> AsyncIterator[Any]:
    """An Upload call of an agent that attends."""
    stub: Any = SessionStub(channel)  # its type demands an iterator of requests
    call = stub.Upload()
    await call.write(session_pb2.UploadRequest(hello=agent.hello()))
    yield call
    call.cancel()


async def answers(call: Any, *records: Record | bytes) -> list[int]:
    """Sends records; returns the verdict on each."""
    for position, record in enumerate(records):
        await call.write(envelope(record, position))
    found: dict[int, int] = {}
    async for reply in call:
        found |= {answer.position: answer.verdict for answer in reply.answers}
        if len(found) == len(records):
            break
    return [found[position] for position in range(len(records))]


async def recorded(server: Server, agent: StandInAgent) -> Run:
    """Starts a task; returns its run, to make records with."""
    run = Run(UUID(await server.start()))
    agent.change(str(run.task_id), RUNNING, run_id=str(run.run_id))
    return run


async def test_from_a_stream_to_an_answer(start_server: StartServer) -> None:
    """The server answers each record; the API then shows the events, counts and losses that were sent."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
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
            "left_out": 0,
        }


async def test_what_was_not_answered_is_stored_by_the_next_server(start_server: StartServer) -> None:
    """A server that stops under load acknowledges only stored records; resent records are stored once. Until then,
    health and metrics tell how long the oldest record has waited."""
    agent = StandInAgent()
    batches: list[Record] = []
    async with start_server(stop_deadline_s=0.3) as server:
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            run = await recorded(server, agent)
            batches += [run.batch(n + 1, rows(97, 97 * n), 97 * (n + 1)) for n in range(11)]
            assert await answers(call, *batches[:3]) == [STORED] * 3
        blocker = await asyncio.to_thread(lambda: psycopg.connect(server.conninfo))
        blocker.execute("LOCK TABLE store.accounts IN SHARE MODE")
        lasting = contextlib.AsyncExitStack()
        channel = await lasting.enter_async_context(agent.attending(server))
        call = await lasting.enter_async_context(uploading(agent, channel))
        unanswered = asyncio.create_task(answers(call, *batches[3:]))
        await until(lambda: metric(server, "scope_server_held_bytes"), lambda bytes_: bytes_ > 0)
        waited = await until(lambda: metric(server, "scope_server_oldest_record_seconds"), lambda seconds: seconds > 0)
        health = await server.get("server")
        assert (health["oldest_waiting_s"] >= waited, health["waiting_bytes"] > 0) == (True, True)
    with pytest.raises(grpc.aio.AioRpcError):
        await unanswered
    await lasting.aclose()
    await asyncio.to_thread(blocker.close)
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        assert await answers(call, *batches) == [STORED] * 11
        assert server.query("SELECT count(*), count(DISTINCT arg0) FROM scope.syscall") == [(11 * 97, 11 * 97)]
        (stream,) = (await server.task(str(run.task_id)))["streams"]
        assert (stream["emitted"], stream["stored"], stream["under_way"]) == (11 * 97, 11 * 97, 0)


@pytest.mark.parametrize("hours", [-30, -5, 5, 20])
async def test_a_clock_that_was_wrong_until_a_restart(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Each row is stored once, also when resent, at the time from the offset in its batch."""
    right, wrong_ns, agent = time.time_ns, hours * 3600 * 10**9, StandInAgent()
    monkeypatch.setattr(time, "time_ns", lambda: right() + wrong_ns)
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        run = await recorded(server, agent)
        offsets = [BOOT_TO_UTC_NS + wrong_ns] * 5 + [BOOT_TO_UTC_NS] * 3
        batches = [
            run.batch(n + 1, rows(97, 97 * n), 97 * (n + 1), boot_to_utc_ns=offset) for n, offset in enumerate(offsets)
        ]
        assert await answers(call, run.start(), *batches[:3]) == [STORED] * 4
    monkeypatch.undo()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        assert await answers(call, *batches) == [STORED] * 8
        dated = server.query(
            "SELECT (extract(epoch FROM time) * 1000000)::bigint - ktime_ns / 1000, count(*), count(DISTINCT arg0)"
            " FROM scope.syscall GROUP BY 1 ORDER BY 2"
        )
        assert dated == [(offsets[-1] // 1000, 3 * 97, 3 * 97), (offsets[0] // 1000, 5 * 97, 5 * 97)]
        seen, cursor = list[int](), None
        while cursor or not seen:
            page = await server.get("events", "syscall", limit=100, cursor=cursor)
            seen, cursor = seen + [event["arg0"] for event in page["events"]], page["next"]
        assert sorted(seen) == list(range(8 * 97))
        (stream,) = (await server.task(str(run.task_id)))["streams"]
        assert (stream["emitted"], stream["stored"], stream["under_way"]) == (8 * 97, 8 * 97, 0)
        assert await metric(server, "scope_server_redated_batches_total") == 0


async def metric(server: Server, name: str) -> float:
    return (await metrics(server))[name]


async def metrics(server: Server) -> dict[str, float]:
    """All samples, by name with labels; a stranger's request gets 401."""
    address = f"http://{server.http}/metrics"
    async with aiohttp.ClientSession(connector=server.local()) as session, session.get(address) as answer:
        text = await answer.text()
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        assert answer.status == 401
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.MULTILINE)}


async def test_metrics_count_and_never_fall(start_server: StartServer) -> None:
    """Metrics count sessions, refused records by code, and stored data; no total falls. They need the token."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
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
    """Without a database, the server still serves its own metrics."""
    async with start_server(prepared=False, database="host=/nonsense dbname=none") as server:
        found = await metrics(server)
        assert (found["scope_server_sessions"], found["scope_server_database_up"]) == (0, 0)


async def test_health_is_whether_it_can_write(start_server: StartServer) -> None:
    """A database that answers queries but accepts no writes is unhealthy."""
    async with start_server() as server:
        with psycopg.connect(server.conninfo) as blocker:
            blocker.execute("LOCK TABLE store.pulse IN ACCESS EXCLUSIVE MODE")
            status, problem = await server.ask("GET", "health")
            parts = await server.get("server")
        assert (status, problem["title"]) == (503, "Not healthy")
        assert "did not write" not in problem["detail"]
        assert (parts["healthy"], parts["database"], parts["agents"]) == (False, "ok", 0)
        assert "did not write" in parts["ingest"]
        assert (await server.ask("GET", "health"))[0] == 200


async def test_held_memory_is_told_by_stack(start_server: StartServer) -> None:
    """The API lists the memory held by each stack, largest first, and can be limited to a process and a node."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        run = await recorded(server, agent)
        held = stacks(["main;small", "main;large"], comm=["x", "x"], live_count=[1, 3], live_bytes=[100, 700])
        assert await answers(call, run.batch(1, held, stream="cuda_live")) == [STORED]
        found = await server.get("states", "cuda_live", pid=4711, node="stand-in")
        assert [(leak["stack"], leak["live_bytes"]) for leak in found["groups"]] == [
            ("main;large", 700),
            ("main;small", 100),
        ]
        assert (await server.get("states", "cuda_live", pid=4712))["groups"] == []


STATES = "/api/v1/states/"


async def test_every_stream_of_states_is_asked_in_the_same_way(start_server: StartServer) -> None:
    """The API documents and answers each stream of states; for any other stream, the error lists these streams."""
    gauges = {stream.name for probe in probes().values() for stream in probe.public_streams if stream.latest}
    async with start_server() as server:
        paths = (await server.get("openapi.json"))["paths"]
        assert {path.removeprefix(STATES) for path in paths if path.startswith(STATES)} == gauges
        for stream in gauges:
            assert (await server.get("states", stream))["groups"] == []
        for stream in ("syscall", "nonsense"):
            status, problem = await server.ask("GET", f"states/{stream}")
            assert status == 404
            assert problem["detail"].startswith(f"there is no stream of states '{stream}'")
            assert problem["detail"].endswith(f"; there are: {', '.join(sorted(gauges))}")


async def test_addresses_that_are_taken_are_named(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second server on a taken port fails with an error that names the address."""
    monkeypatch.setattr("scope_server.listen._WAIT_S", 0.3)
    async with start_server() as server:
        with pytest.raises(AddressTaken, match=f"cannot listen on {server.http} for the API"):
            async with start_server(http=server.http, socket=server.socket.with_name("other")):
                pass
        with pytest.raises(AddressTaken, match=f"cannot listen on {server.ingest} for ingest"):
            async with start_server(ingest=server.ingest, socket=server.socket.with_name("other")):
                pass


async def test_an_address_that_is_being_left_is_waited_for(start_server: StartServer) -> None:
    """A server waits for a taken port, because a killed server may hold its ports for a moment."""
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


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"])
@pytest.mark.parametrize("name", ["http", "ingest", "enrol"])
def test_an_address_is_host_and_port(name: str, address: str, tmp_path: Path) -> None:
    """Other texts are refused; the message names the setting."""
    with pytest.raises(InvalidSettings, match=f"{name}: "):
        Settings("", tmp_path / "api.sock", tmp_path / "authority", tmp_path, **dict[str, Any]({name: address}))


async def test_two_servers_cannot_have_one_socket(start_server: StartServer, database: str) -> None:
    """The second one does not start, and the first one goes on; what a killed server left behind is replaced."""
    async with start_server() as server:
        with pytest.raises(AddressTaken, match=r"api\.sock"):
            async with asyncio.timeout(60), start_server(database=database):
                pass
        assert (await server.ask("GET", "nodes"))[0] == 200
    listening(server.socket).close()
    async with start_server() as server:
        assert (await server.ask("GET", "nodes"))[0] == 200


async def test_work_that_ends_unexpectedly_ends_the_server(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If background work fails, the server logs the error and ends, so that its supervisor restarts it."""

    async def fail(_: Reports) -> None:
        await asyncio.sleep(0.2)
        raise ArithmeticError("no such luck")

    monkeypatch.setattr(Reports, "run", fail)
    anywhere: dict[str, Any] = dict.fromkeys(("http", "ingest", "enrol"), "127.0.0.1:0")
    settings = Settings(database, tmp_path / "api.sock", tmp_path / "authority", tmp_path, **anywhere)
    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(serve(settings, asyncio.Event()), 60)
    assert isinstance(ended.value.exceptions[0], ArithmeticError)
    assert "background work failed" in caplog.text


async def test_a_newer_database_is_left_alone(database: str, start_server: StartServer) -> None:
    """A server that is older than its database's schema ends with an error."""
    async with start_server():
        pass
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO store.schema_versions VALUES (9999)")
    with pytest.raises(ExceptionGroup) as ended:
        async with start_server():
            pass
    assert isinstance(ended.value.exceptions[0], SchemaConflict)
