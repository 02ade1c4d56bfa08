"""Peers that may not connect, or that send what nobody should: each is refused and counted, and disturbs nobody."""

import asyncio
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiohttp
import grpc
import pytest
from tests.fleet import of_machine, of_person, signed_days_ago, to_server
from tests.half_open import disturb_nobody, half_open
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import MACHINE, StandInAgent
from tests.integration.server.test_members import joined
from tests.ports import free_port

from scope_agentd.errors import NotJoined
from scope_agentd.identity.join import join
from scope_cli.https import socket_opener
from scope_proto.scope.v1 import enrolment_pb2, session_pb2
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentStub
from scope_server import listen
from scope_server.identity import register
from scope_server.identity.authority import Authority
from scope_wire import calls
from scope_wire.https import calling
from scope_wire.identity import SERVER_NAME
from scope_wire.join_token import JoinToken
from scope_wire.keys import Anonymous, make_key, pem_of, signing_request

StartServer = Callable[..., Any]
Code = grpc.StatusCode
METHODS = tuple(session_pb2.DESCRIPTOR.services_by_name["Session"].methods)
PATIENCE_S = 60
HELD_CONNECTIONS = 251  # with four calls each
MEMBERS_CONNECTIONS = 11  # with as many calls each as a connection may have


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "_READ_EVERY_S", 0.2)


def call(channel: Any, method: Any, messages: list[bytes]) -> Any:
    """A call of any method of the session service, with these serialized messages."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    if not method.client_streaming:
        return cast("Any", channel).unary_unary(path)(messages[0], timeout=PATIENCE_S)

    async def sent() -> AsyncIterator[bytes]:
        for message in messages:
            yield message
        await asyncio.sleep(PATIENCE_S)

    return channel.stream_stream(path)(sent(), timeout=PATIENCE_S)


def first_message(method: Any, agent: StandInAgent) -> bytes:
    """What an honest caller of a method sends first."""
    if method.name == "Renew":
        return session_pb2.RenewRequest(signing_request=signing_request(make_key())).SerializeToString()
    if method.name == "Annotate":
        return session_pb2.AnnotateRequest().SerializeToString()
    kind: Any = {"Attend": session_pb2.AttendRequest, "Upload": session_pb2.UploadRequest}[method.name]
    return bytes(kind(hello=agent.hello()).SerializeToString())


async def refused(channel: Any, method: Any, message: bytes) -> Code:
    """The status of a call that is refused."""
    started = call(channel, method, [message])
    if method.client_streaming:
        return Code(await started.code())
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await started
    return failed.value.code()


async def counted(server: Server, reason: str) -> int:
    """How many peers were refused for this reason."""
    text = await asyncio.to_thread(_metrics, server)
    found = re.search(rf'^scope_server_refused_peers_total{{reason="{reason}"}} (\S+)$', text, re.MULTILINE)
    return int(float(found[1])) if found else -1


def _metrics(server: Server) -> str:
    with socket_opener(str(server.socket)).open("http://localhost/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_no_call_without_a_valid_certificate(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Any
) -> None:
    """Without a certificate, with one of another authority, an expired one or in plain text there is no connection; a
    person, a revoked, a removed and another machine are refused by name, and counted."""
    agent = StandInAgent()
    message = first_message(method, agent)
    async with start_server() as server:
        with signed_days_ago(monkeypatch, 31):
            expired = of_machine(server.authority, MACHINE)
        strangers = (
            Anonymous((server.authority.certificate,)),
            of_machine(Authority(tmp_path / "other"), MACHINE),
            expired,
        )
        for shown in strangers:
            async with to_server(server.ingest, shown) as channel:
                assert await refused(channel, method, message) is Code.UNAVAILABLE
        async with grpc.aio.insecure_channel(server.ingest) as channel:
            assert await refused(channel, method, message) is Code.UNAVAILABLE
        async with to_server(server.ingest, of_person(server.authority)) as channel:
            assert await refused(channel, method, message) is Code.PERMISSION_DENIED
        assert await counted(server, "not_a_machine") == 1
        if method.client_streaming:
            async with to_server(server.ingest, of_machine(server.authority, "f" * 32)) as channel:
                assert await refused(channel, method, message) is Code.PERMISSION_DENIED
            assert await counted(server, "another_machine") == 1
        for verb in ("remove", "revoke"):
            member = await joined(server, tmp_path / verb)
            assert (await server.ask("POST", f"nodes/{member.machine_id}/{verb}"))[0] == 200
            async with to_server(server.ingest, member.credentials) as channel:
                assert await refused(channel, method, message) is Code.PERMISSION_DENIED
            assert await counted(server, f"{verb.removesuffix('e')}ed") == 1
        assert server.query("SELECT count(*) FROM store.machines") == [(0,)]


async def test_tokens_of_others(start_server: StartServer, tmp_path: Path) -> None:
    """A token of another server is refused before its secret is told; a made-up secret is refused and counted."""
    other = Authority(tmp_path / "other")
    async with start_server() as server:
        with pytest.raises(NotJoined, match="this is not the server that made the token"):
            await join(server.enrol, JoinToken.make(other.certificate), tmp_path / "state")
        for _ in range(3):
            with pytest.raises(NotJoined, match="was used or has expired"):
                await join(server.enrol, JoinToken.make(server.authority.certificate), tmp_path / "state")
        assert await counted(server, "token") == 3


@pytest.mark.parametrize("service", ["enrol", "ingest"])
async def test_what_is_no_message(start_server: StartServer, service: str) -> None:
    """Messages that are too large or cannot be read end their call with an error. Others go on."""
    async with start_server() as server:
        own = of_machine(server.authority, MACHINE)
        shown: Any = Anonymous((server.authority.certificate,)) if service == "enrol" else own
        async with to_server(server.enrol if service == "enrol" else server.ingest, shown) as channel:
            if service == "enrol":
                paths = ("/scope.v1.Enrolment/Join", "/scope.v1.Enrolment/Return")
                made: list[Any] = [
                    lambda message, path=path: cast("Any", channel).unary_unary(path)(message, timeout=PATIENCE_S)
                    for path in paths
                ]
            else:
                made = [lambda message, method=method: call(channel, method, [message]) for method in METHODS]
            for make in made:
                for message in (b"\xff" * 1009, b"\x0a\xff\xff\xff\xff\x0f", b"\0" * (8 << 20)):
                    started = make(message)
                    code = await started.code()
                    assert code in (Code.INTERNAL, Code.UNKNOWN, Code.RESOURCE_EXHAUSTED, Code.INVALID_ARGUMENT), code
        async with StandInAgent().attending(server):
            pass


async def test_calls_that_never_end(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose messages never come has a bounded number of calls, on all its connections together. More are
    refused and counted, so that other machines have theirs; those that are held end."""
    monkeypatch.setattr(calls, "MESSAGE_S", 3)
    loud, quiet = "e" * 32, StandInAgent("quiet")

    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(PATIENCE_S)
        yield b""

    async with start_server(sessions=1) as server, AsyncExitStack() as opened:  # the server has places for 102 calls
        held = []
        for _ in range(MEMBERS_CONNECTIONS):
            channel: Any = await opened.enter_async_context(server.channel(loud))
            held += [
                channel.stream_stream(f"/scope.v1.Session/{name}")(never(), timeout=PATIENCE_S)
                for name in ("Renew", "Annotate") * (calls.MOST_CALLS // 2)
            ]
        ending = [asyncio.create_task(one.code()) for one in held]
        refused_calls = len(held) - calls.MOST_CALLS
        await until(lambda: counted(server, "calls"), lambda found: found == refused_calls)
        async with asyncio.timeout(PATIENCE_S), quiet.attending(server):
            pass
        codes = Counter(await asyncio.gather(*ending))
    assert codes == {Code.RESOURCE_EXHAUSTED: refused_calls, Code.INVALID_ARGUMENT: calls.MOST_CALLS}


async def test_a_stream_without_end(start_server: StartServer) -> None:
    """One that sends messages forever keeps its own stream busy, and no other."""
    loud, quiet = StandInAgent("loud", "e" * 32), StandInAgent("quiet")
    greeting = session_pb2.AttendRequest(hello=loud.hello()).SerializeToString()

    async def forever() -> AsyncIterator[bytes]:
        while True:
            yield greeting
            await asyncio.sleep(0)

    async with start_server() as server, server.channel(loud.machine_id) as channel:
        started = channel.stream_stream("/scope.v1.Session/Attend")(forever(), timeout=PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S), quiet.attending(server):
            task = await server.start(node=quiet.machine_id)
            await until(lambda: server.task(task), lambda found: found["state"] == "running", PATIENCE_S)
        started.cancel()


async def test_half_open_connections(start_server: StartServer, tmp_path: Path) -> None:
    """A thousand that connect and then say nothing, or half a greeting, keep no machine from joining, and slow down
    nobody who is connected or connects: neither the starts of tasks nor the API, which has a port of its own."""
    async with start_server(http="0.0.0.0:0") as server:
        ports = [int(address.rpartition(":")[2]) for address in (server.enrol, server.ingest, server.http)]
        member = await joined(server, tmp_path / "before")
        agent = StandInAgent("here", member.machine_id)

        async def start() -> None:
            task = await server.start(node="here")
            await until(lambda: server.task(task), lambda found: found["state"] == "running", PATIENCE_S)
            await server.stop(task)

        async def connect() -> None:
            async with to_server(server.ingest, of_person(server.authority)) as channel:
                assert await refused(channel, METHODS[0], b"") is Code.PERMISSION_DENIED

        async def ask() -> None:
            context = calling(pem_of(server.authority.certificate).decode())
            async with (
                aiohttp.ClientSession() as session,
                session.get(
                    f"https://127.0.0.1:{ports[2]}/api/v1/health", ssl=context, server_hostname=SERVER_NAME
                ) as answer,
            ):
                assert answer.status == 200

        async with to_server(server.ingest, member.credentials) as channel, agent.attending(server, channel):
            for works in (start, connect, ask):
                await disturb_nobody(ports, works, works.__name__)
        async with half_open(ports), asyncio.timeout(PATIENCE_S):
            await joined(server, tmp_path / "meanwhile")


async def test_answers_to_a_return_are_of_use_to_the_key_only(start_server: StartServer) -> None:
    """What is no certificate, or of another authority, gets no certificate, and is counted."""
    async with start_server() as server:
        async with to_server(server.enrol, Anonymous((server.authority.certificate,))) as channel:
            stub: Any = EnrolmentStub(channel)
            for certificate in (b"", b"x" * 1009):
                request = enrolment_pb2.ReturnRequest(certificate=certificate, signing_request=b"y")
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await stub.Return(request, timeout=PATIENCE_S)
                assert failed.value.code() is Code.INVALID_ARGUMENT
        assert await counted(server, "invalid") == 2


async def test_failed_handshakes_are_counted(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`scope server` counts peers that got no connection, by reason: gRPC says it only on standard error. Its own log
    goes on, with one line for each reason."""
    ports = {name: free_port() for name in ("http", "ingest", "enrol")}
    words = [word for name, port in ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
    authority = Authority(tmp_path / "authority")
    with signed_days_ago(monkeypatch, 31):
        expired = of_machine(authority, MACHINE)
    command = [sys.executable, "-m", "scope_cli.main", "server", "--state-dir", str(tmp_path), "--database", database]
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*command, *words, stderr=out, env=environment)
    address = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    try:
        server = Server(
            address["http"], address["ingest"], address["enrol"], tmp_path / "api.sock", authority, database
        )
        await until(lambda: asyncio.sleep(0, (tmp_path / "api-url").exists()), bool, PATIENCE_S)
        other = of_machine(Authority(tmp_path / "other"), MACHINE)
        stranger = replace(other, authorities=(*other.authorities, authority.certificate))  # it accepts the server
        for shown in (Anonymous((authority.certificate,)), stranger, expired):
            for _ in range(3):
                async with to_server(server.ingest, shown) as channel:
                    message = first_message(METHODS[0], StandInAgent())
                    assert await refused(channel, METHODS[0], message) is Code.UNAVAILABLE
        async with grpc.aio.insecure_channel(server.ingest) as channel:
            assert await refused(channel, METHODS[0], first_message(METHODS[0], StandInAgent())) is Code.UNAVAILABLE
        for reason, least in {"no_certificate": 3, "wrong_authority": 3, "expired": 3, "plain_text": 1}.items():
            await until(lambda reason=reason: counted(server, reason), lambda found, least=least: found >= least, 20)
    finally:
        process.terminate()
        await process.wait()
    text = log.read_text()
    for reason in ("no_certificate", "wrong_authority", "expired", "plain_text"):
        assert len([line for line in text.splitlines() if "a peer was refused" in line and reason in line]) == 1, text


async def test_enrolments_that_never_end(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand calls without a certificate, whose message never comes, keep nobody from joining; they are cut."""
    monkeypatch.setattr(listen, "_STRANGER_S", 3)

    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(PATIENCE_S)
        yield b""

    async with start_server() as server, AsyncExitStack() as opened:
        held = []
        for _ in range(HELD_CONNECTIONS):
            channel: Any = await opened.enter_async_context(
                to_server(server.enrol, Anonymous((server.authority.certificate,)))
            )
            held += [
                channel.stream_stream(f"/scope.v1.Enrolment/{name}")(never(), timeout=PATIENCE_S)
                for name in ("GetAuthority", "Join", "Return", "Join")
            ]
        await asyncio.gather(*(one.wait_for_connection() for one in held))
        await joined(server, tmp_path / "meanwhile")
        assert set(await asyncio.gather(*(one.code() for one in held))) == {Code.UNAVAILABLE}
