"""Machines join a server with tokens; certificates are renewed, revoked, and end. Strangers are refused."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.chaos.proxy import Proxy
from tests.fleet import of_machine, of_person, shake_hands, to_server
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import MACHINE, StandInAgent
from tests.ports import free_port

from scope_agentd.errors import NotJoined
from scope_agentd.identity import join as joining
from scope_agentd.identity.join import join
from scope_agentd.identity.membership import Membership
from scope_agentd.node import machine_id
from scope_proto.scope.v1 import enrolment_pb2, session_pb2
from scope_proto.scope.v1.enrolment_pb2 import JoinRequest
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentServicer, EnrolmentStub, add_EnrolmentServicer_to_server
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_server.identity import register
from scope_server.identity import root as signing
from scope_server.identity.authority import Authority
from scope_wire.channel import listen, pushback_s
from scope_wire.endpoint import Endpoint
from scope_wire.identity import SERVER_NAME, Identity, Kind, Role, holder_of, read_certificate
from scope_wire.join_token import JoinToken
from scope_wire.keys import Anonymous, Credentials, make_key, signing_request

StartServer = Callable[..., Any]
Code = grpc.StatusCode


async def token_of(server: Server, valid_s: float = 60, **more: Any) -> JoinToken:
    """A new token."""
    status, made = await server.ask("POST", "join-tokens", json={"valid": valid_s, **more})
    assert status == 201, made
    assert server.enrol in made["addresses"]
    return JoinToken.read(made["token"])


async def renewed(channel: grpc.aio.Channel, member: Membership | None = None) -> Any:
    """Whom the renewed certificate of a channel's caller names."""
    stub: Any = SessionStub(channel)
    key = member.credentials.key if member else make_key()
    answer = await stub.Renew(session_pb2.RenewRequest(signing_request=signing_request(key)), timeout=20)
    return holder_of(read_certificate(answer.certificate))


async def code_of(call: Any) -> Code:
    """The status with which a call fails."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code()


async def test_a_machine_joins_once(start_server: StartServer, tmp_path: Path) -> None:
    """With a token, it gets a certificate of its id, and the server's addresses. The same token again does
    nothing, as in the command line of a service, and a used token is of no use to others."""
    async with start_server() as server:
        token = await token_of(server)
        await join(server.enrol, token, tmp_path / "one")
        member = Membership(tmp_path / "one")
        assert member.machine_id == machine_id(tmp_path / "one")
        assert (member.fleet.servers, member.fleet.enrolments) == ((server.ingest,), (server.enrol,))
        async with to_server(server.ingest, member.credentials) as channel:
            assert (await renewed(channel, member)).identity == member.credentials.holder.identity
        before = member.credentials.certificate
        await join(server.enrol, token, tmp_path / "one")
        assert Membership(tmp_path / "one").credentials.certificate == before
        with pytest.raises(NotJoined, match="the token was used or has expired"):
            await join(server.enrol, token, tmp_path / "two")
        (listed, first) = (await server.get("certificates"))["certificates"]
        assert {listed["name"], first["name"]} == {member.machine_id}
        assert first["hostname"] == socket.gethostname()
        noted = [entry for entry in (await server.get("audit"))["entries"] if entry["act"].startswith("node.")]
        assert [(entry["act"], entry["object"]) for entry in noted] == [
            ("node.renew", member.machine_id),
            ("node.join", member.machine_id),
        ]
        assert {entry["address"] for entry in noted} == {"127.0.0.1"}


@pytest.fixture
def proxy_to() -> Iterator[Callable[[str], Proxy]]:
    """Makes proxies to host:port."""
    with ExitStack() as made:

        def make(address: str) -> Proxy:
            proxy = Proxy(Endpoint.parse(address, "proxy").port)
            made.callback(proxy.close)
            return proxy

        yield make


async def test_a_lost_answer(
    start_server: StartServer, tmp_path: Path, proxy_to: Callable[[str], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is cut after the server has signed, before its answer. The machine asks again, and the same key
    with the same token gets the same certificate, also after the token's end. Another key is refused: the use is
    spent."""
    monkeypatch.setattr(joining, "_PATIENCE_S", 300)
    async with start_server() as server:
        token, proxy = await token_of(server, 5), proxy_to(server.enrol)
        through = f"127.0.0.1:{proxy.port}"
        with psycopg.connect(server.conninfo) as held:  # the server waits for it just before it signs
            held.execute("LOCK TABLE store.members IN EXCLUSIVE MODE")
            joins = asyncio.create_task(join(through, token, tmp_path / "one"))
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            await until(lambda: asyncio.to_thread(server.query, waits), lambda rows: rows[0][0] == 1)
            proxy.lose_replies(True)
        signed = "SELECT serial FROM store.certificates"
        await until(lambda: asyncio.to_thread(server.query, signed), bool)
        await asyncio.to_thread(server.query, "UPDATE store.join_tokens SET expires = now()")
        proxy.heal()
        await joins
        found = Membership(tmp_path / "one").credentials.holder
        assert server.query(signed) == [(found.serial,)]
        assert server.query("SELECT machine_id, key_digest FROM store.members") == [(found.identity.name, found.key)]
        assert server.query("SELECT used FROM store.join_tokens") == [(1,)]
        with pytest.raises(NotJoined, match="the token was used or has expired"):
            await join(through, token, tmp_path / "two")


async def test_a_database_that_is_away_for_a_moment(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server cannot sign, and says when to ask again: so a machine that joins just then need not be told twice."""
    told: list[float | None] = []

    def noted(error: grpc.aio.AioRpcError) -> float | None:
        told.append(pushback_s(error))
        return told[-1]

    monkeypatch.setattr(joining, "pushback_s", noted)
    async with start_server() as server:
        token = await token_of(server)
        name = conninfo_to_dict(server.conninfo)["dbname"]
        with psycopg.connect(make_conninfo(server.conninfo, dbname="postgres"), autocommit=True) as beside:
            beside.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            beside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            joins = asyncio.create_task(join(server.enrol, token, tmp_path))
            await until(lambda: asyncio.sleep(0, told), bool)
            assert (told[0], joins.done()) == (1.0, False)
            beside.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        await joins
        assert server.query("SELECT machine_id FROM store.members") == [(Membership(tmp_path).machine_id,)]


async def test_an_agent_that_dies_while_it_joins(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it dies before it has kept the certificate, it joins with the same token again, as the same machine."""

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    async with start_server() as server:
        token = await token_of(server)
        with monkeypatch.context() as changed, pytest.raises(KeyboardInterrupt):
            changed.setattr(joining, "keep", dies)
            await join(server.enrol, token, tmp_path)
        await join(server.enrol, token, tmp_path)
        assert server.query("SELECT machine_id FROM store.members") == [(Membership(tmp_path).machine_id,)]


async def test_tokens_end(start_server: StartServer, tmp_path: Path) -> None:
    """An expired token, one of another server and a made-up one are refused; the error says what to do."""
    async with start_server() as server:
        expired = await token_of(server, 0.001)
        for token in (expired, JoinToken(b"0" * 16, expired.authority)):
            with pytest.raises(NotJoined, match="the token was used or has expired; `scope admin join-token` makes"):
                await join(server.enrol, token, tmp_path)
        with pytest.raises(NotJoined, match="this is not the server that made the token"):
            await join(server.enrol, JoinToken(expired.secret, b"0" * 32), tmp_path)
        assert not (tmp_path / "agent.pem").exists()
        assert server.query("SELECT count(*) FROM store.certificates") == [(0,)]


class Impostor(EnrolmentServicer):
    """Says that it has an authority, and notes who asks it to join."""

    def __init__(self, named: Authority) -> None:
        self._named = named
        self.heard: list[Any] = []

    async def GetAuthority(self, request: Any, context: Any) -> Any:
        return enrolment_pb2.Authority(certificate=self._named.certificate.public_bytes(Encoding.DER))

    async def Join(self, request: Any, context: Any) -> Any:
        self.heard.append(request)
        return enrolment_pb2.Certificate()

    async def Return(self, request: Any, context: Any) -> Any:
        """Nobody returns."""


async def test_the_secret_is_told_to_the_right_server_only(tmp_path: Path) -> None:
    """A server that names the token's authority, but has a certificate of another one, is not told the secret."""
    right, strange = Authority(tmp_path / "right"), Authority(tmp_path / "strange")
    own, impostor = strange.issue(Identity(Kind.SERVER)), Impostor(right)
    server = grpc.aio.server()
    add_EnrolmentServicer_to_server(impostor, server)
    port = listen(server, Endpoint("127.0.0.1", 0, lambda: own), of_clients=False).port
    await server.start()
    with pytest.raises(NotJoined, match="the certificate is of another authority"):
        await join(f"127.0.0.1:{port}", JoinToken.make(right.certificate), tmp_path / "state")
    await server.stop(None)
    assert impostor.heard == []


async def test_nobody_there(tmp_path: Path) -> None:
    """A server that does not answer, or speaks no TLS, is told at once."""
    token = JoinToken.make(Authority(tmp_path / "authority").certificate)
    port = free_port()
    with pytest.raises(NotJoined, match=f"no server enrols machines at 127.0.0.1:{port}"):
        await join(f"127.0.0.1:{port}", token, tmp_path / "state")


async def test_another_port_of_the_server(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where agents upload, nobody enrols: this is told at once, and not asked again and again."""
    monkeypatch.setattr(joining, "_PATIENCE_S", 1e6)
    async with start_server() as server:
        with pytest.raises(NotJoined, match=f"no server enrols machines at {server.ingest}"):
            await join(server.ingest, await token_of(server), tmp_path)


async def test_who_may_connect(start_server: StartServer, tmp_path: Path) -> None:
    """Only a certificate of the fleet connects, and only with TLS 1.3; only a machine's may call, for this machine."""
    async with start_server() as server:
        strange = of_machine(Authority(tmp_path / "strange"), MACHINE)
        for shown in (Anonymous((server.authority.certificate,)), strange):
            async with to_server(server.ingest, shown) as channel:
                assert await code_of(renewed(channel)) is Code.UNAVAILABLE
        async with grpc.aio.insecure_channel(server.ingest) as channel:
            assert await code_of(renewed(channel)) is Code.UNAVAILABLE
        async with to_server(server.ingest, of_person(server.authority)) as channel:
            assert await code_of(renewed(channel)) is Code.PERMISSION_DENIED
        other = StandInAgent(machine_id="f" * 32)
        async with server.channel(MACHINE) as channel:
            call: Any = SessionStub(channel)
            attend = call.Attend()
            await attend.write(session_pb2.AttendRequest(hello=other.hello()))
            assert await attend.code() is Code.PERMISSION_DENIED
            assert "cannot use the certificate of" in str(await attend.details())
        assert server.query("SELECT count(*) FROM store.machines") == [(0,)]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_only_tls_1_3(start_server: StartServer, version: str) -> None:
    """Both ports refuse TLS 1.2, also from who has a certificate."""
    async with start_server() as server:
        own = of_machine(server.authority, MACHINE)
        for address in (server.ingest, server.enrol):
            expected = "TLSv1.3" if version == "TLSv1_3" else None
            assert await asyncio.to_thread(shake_hands, address, SERVER_NAME, own, version) == expected


async def test_renewal_and_end(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server asks for a renewal after half of a certificate's time; at its end, the session ends."""
    monkeypatch.setattr(register, "_READ_EVERY_S", 0.1)
    monkeypatch.setattr(signing, "LIFETIME", timedelta(seconds=8))
    monkeypatch.setattr(register, "LIFETIME", timedelta(seconds=8))
    async with start_server() as server:
        agent = StandInAgent().quiet()
        async with agent.attending(server):
            await until(lambda: asyncio.sleep(0, agent.renewals), bool)
            await until(lambda: asyncio.sleep(0, agent.status), bool)
        assert agent.status is Code.PERMISSION_DENIED
        assert "has expired" in agent.details


async def test_a_persons_certificate(start_server: StartServer, tmp_path: Path) -> None:
    """`scope admin client-cert` makes one, in NAME.pem unless a file is named, and overwrites none."""
    async with start_server() as server:
        its = {"SCOPE_URL": f"http://{server.http}", "SCOPE_TOKEN_FILE": str(server.token)}
        words = [sys.executable, "-m", "scope_cli.main", "admin", "client-cert", "ada", "--role", "admin"]
        for status, said in ((0, ""), (2, "ada.pem exists")):
            ran = await asyncio.create_subprocess_exec(
                *words, cwd=tmp_path, env={**os.environ, **its}, stderr=asyncio.subprocess.PIPE
            )
            told = (await ran.communicate())[1].decode()
            assert (ran.returncode, said in told) == (status, True), told
    assert Credentials.read(tmp_path / "ada.pem").holder.identity == Identity(Kind.OPERATOR, "ada", Role.ADMIN)


async def test_bad_requests(start_server: StartServer) -> None:
    """What cannot be signed is refused by name; nothing is kept."""
    async with start_server() as server:
        for body, named in (
            ({"name": "me"}, "signing_request"),
            ({"name": "me", "signing_request": "!"}, "signing_request: it is not base64"),
            ({"name": "me", "signing_request": "AAAA"}, "signing_request: these bytes"),
            ({"name": "", "signing_request": "AAAA"}, "name: "),
            ({"name": "a/b", "signing_request": "AAAA"}, "name: "),
            (
                {"name": "me", "role": "owner", "signing_request": "AAAA"},
                "role: 'owner' is not one of viewer, operator, admin",
            ),
            ({"name": "me", "rolle": "owner"}, "no field 'rolle'"),
        ):
            status, said = await server.ask("POST", "certificates", json=body)
            assert (status, named in said["detail"]) == (400, True), said
        wrong: dict[str, tuple[Any, ...]] = {
            "valid": (0, -1, 1e9, "x"),
            "uses": (0, 1.5, True, 10**9, "x"),
            "labels": ([], {"": "x"}, {"a b": "x"}, {"a": ""}, {"a": 1}, {"a": None}, {"a": "x" * 64}),
        }
        for name, values in wrong.items():
            for value in values:
                status, said = await server.ask("POST", "join-tokens", json={name: value})
                begins = said["detail"].startswith((f"{name}: ", f"{name}."))
                assert (status, begins) == (400, True), (name, value, said)
        async with to_server(server.enrol, Anonymous((server.authority.certificate,))) as channel:
            stub: Any = EnrolmentStub(channel)
            for request in (
                JoinRequest(),
                JoinRequest(token="x", machine_id=MACHINE),
                JoinRequest(token=str(JoinToken(b"0" * 16, b"0" * 32)), machine_id="short"),
                JoinRequest(token=str(JoinToken(b"0" * 16, b"0" * 32)), machine_id=MACHINE),
                JoinRequest(token=str(JoinToken(b"0" * 16, b"0" * 32)), machine_id=MACHINE, hostname="a" * 300),
            ):
                assert await code_of(stub.Join(request, timeout=20)) is Code.INVALID_ARGUMENT
        assert server.query("SELECT count(*) FROM store.certificates") == [(0,)]
