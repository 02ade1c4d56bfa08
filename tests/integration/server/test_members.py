"""Who is a member: removal, revocation, absence, copies of a machine, labels, and a database from an older backup."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.fleet import signed_days_ago, to_server
from tests.integration.server.records import Run, rows
from tests.integration.server.running import Server, node, until
from tests.integration.server.stand_in_agent import MACHINE, StandInAgent
from tests.integration.server.test_app import STORED, answers, uploading
from tests.integration.server.test_enrolment import code_of, renewed, token_of

from scope_agentd.errors import NotJoined
from scope_agentd.identity.join import join
from scope_agentd.identity.membership import Membership
from scope_agentd.identity.renewal import come_back
from scope_proto.scope.v1 import task_pb2
from scope_server.identity import register
from scope_wire.keys import Credentials

StartServer = Callable[..., Any]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "_READ_EVERY_S", 0.2)


async def joined(server: Server, state: Path, **token: Any) -> Membership:
    """A machine that has joined with a new token."""
    await join(server.enrol, await token_of(server, **token), state)
    return Membership(state)


def certificate_in(state: Path) -> Any:
    """The certificate that a machine has kept."""
    return Membership(state).credentials.certificate


def agent_of(member: Membership, hostname: str = "stand-in") -> StandInAgent:
    """A stand-in agent of a member."""
    return StandInAgent(hostname, member.machine_id)


async def test_removed_and_revoked_are_two_things(start_server: StartServer, tmp_path: Path) -> None:
    """Both end the session, and refuse the certificate also on an open connection. Who was removed may join again, as
    the same machine; who was revoked may not, with no key, until an admin removes it."""
    async with start_server() as server:
        member = await joined(server, tmp_path / "one")
        for verb in ("remove", "revoke"):
            agent = agent_of(member)
            async with to_server(server.ingest, member.credentials) as channel, agent.attending(server, channel):
                status, said = await server.ask("POST", f"nodes/{member.machine_id}/{verb}")
                assert (status, said) == (200, {"machine_id": member.machine_id})
                await until(lambda: node(server), lambda found: not found["connected"])
                assert await code_of(renewed(channel)) is grpc.StatusCode.PERMISSION_DENIED
            assert (await node(server))["membership"] == f"{verb.removesuffix('e')}ed"
            status, said = await server.ask("POST", f"nodes/{member.machine_id}/{verb}")
            assert status == 404, said
            if verb == "remove":
                again = await joined(server, tmp_path / "one")
                assert again.machine_id == member.machine_id
                assert (await node(server))["membership"] == "joined"
                member = again
        for state in ("one", "new-key"):
            with pytest.raises(
                NotJoined, match=f"revoked; `scope admin remove {member.machine_id}` on the server lets"
            ):
                await joined(server, tmp_path / state)
        assert certificate_in(tmp_path / "one") == member.credentials.certificate, "what it has must not be deleted"
        await server.ask("POST", f"nodes/{member.machine_id}/remove")
        assert (await joined(server, tmp_path / "one")).machine_id == member.machine_id


async def test_a_machine_that_was_away(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 45 days its certificate has expired: no connection is possible, but with its key it gets a new one, as the
    same machine. After the grace period it is told that it needs a new token, and keeps what it has."""
    async with start_server() as server:
        with signed_days_ago(monkeypatch, 45):
            member = await joined(server, tmp_path / "one")
        assert member.credentials.holder.expires < datetime.now(UTC) - 14 * DAY
        async with to_server(server.ingest, member.credentials) as channel:
            assert await code_of(renewed(channel)) is grpc.StatusCode.UNAVAILABLE
        await come_back(member)
        assert not member.fleet.needs_token
        assert member.credentials.holder.expires > datetime.now(UTC) + 29 * DAY
        assert certificate_in(tmp_path / "one") == member.credentials.certificate
        async with to_server(server.ingest, member.credentials) as channel:
            assert (await renewed(channel, member)).identity.name == member.machine_id
        with signed_days_ago(monkeypatch, 30 + 91):
            long = await joined(server, tmp_path / "two")
        before = long.credentials
        await come_back(long)
        assert "more than 90 days ago; join again with a new token" in long.fleet.needs_token
        assert Membership(tmp_path / "two").fleet == long.fleet
        assert certificate_in(tmp_path / "two") == before.certificate
        again = await joined(server, tmp_path / "two")
        assert (again.machine_id, again.credentials.holder.key) == (long.machine_id, before.holder.key)
        assert not again.fleet.needs_token


async def test_grace_is_a_setting(start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without grace, an expired certificate is of no use."""
    async with start_server(grace=0) as server:
        with signed_days_ago(monkeypatch, 31):
            member = await joined(server, tmp_path)
        await come_back(member)
        assert "more than 0 days ago" in member.fleet.needs_token


async def test_a_certificate_alone_does_not_come_back(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has another machine's certificate, but not its key, gets nothing; and who was revoked neither."""
    async with start_server() as server:
        with signed_days_ago(monkeypatch, 45):
            member, thief = await joined(server, tmp_path / "one"), await joined(server, tmp_path / "two")
        stolen = member.credentials
        thief.credentials = Credentials.__new__(Credentials)
        for name, value in {**vars(stolen), "key": Membership(tmp_path / "two").credentials.key}.items():
            object.__setattr__(thief.credentials, name, value)
        await come_back(thief)
        assert thief.fleet.needs_token == "signing_request: it is of another key than the certificate"
        await server.ask("POST", f"nodes/{member.machine_id}/revoke")
        await come_back(member)
        assert "was revoked" in member.fleet.needs_token
        assert server.query("SELECT count(*) FROM store.certificates") == [(2,)]


async def test_a_fresh_certificate_comes_back_as_it_is(start_server: StartServer, tmp_path: Path) -> None:
    """If something else keeps a machine from its session, asking again and again fills no table."""
    async with start_server() as server:
        member = await joined(server, tmp_path)
        before = member.credentials
        for _ in range(3):
            await come_back(member)
        assert member.credentials == before
        assert server.query("SELECT count(*) FROM store.certificates") == [(1,)]


async def test_copies_of_a_machine(start_server: StartServer, tmp_path: Path) -> None:
    """Two machines with one machine id are told apart by their keys: the second gets an id of its own. A cloned disk
    has the key, too: its machine joins again, and is then another. What each of the two recorded stays its own."""
    async with start_server() as server:
        original, twin = await joined(server, tmp_path / "one"), await joined(server, tmp_path / "two")
        assert original.machine_id != twin.machine_id
        async with agent_of(original).attending(server), agent_of(twin, "twin").attending(server):
            assert len((await server.get("nodes"))["nodes"]) == 2
        (tmp_path / "disk").mkdir()
        await _record(server, original, 101)
        for file in (tmp_path / "one").iterdir():
            (tmp_path / "disk" / file.name).write_bytes(file.read_bytes())
            (tmp_path / "disk" / file.name).chmod(0o600)
        clone = await joined(server, tmp_path / "disk")
        assert clone.machine_id not in (original.machine_id, twin.machine_id)
        assert clone.credentials.holder.key != original.credentials.holder.key
        async with to_server(server.ingest, original.credentials) as channel:
            assert (await renewed(channel, original)).identity.name == original.machine_id
        await _record(server, clone, 103)
        await _record(server, original, 107)
        stored = "SELECT machine_id, count(*) FROM scope.syscall GROUP BY machine_id"
        assert dict(server.query(stored)) == {original.machine_id: 101 + 107, clone.machine_id: 103}


async def _record(server: Server, member: Membership, count: int) -> None:
    """A run of the machine stores so many rows."""
    agent, run = agent_of(member), Run()
    async with (
        to_server(server.ingest, member.credentials) as channel,
        agent.attending(server, channel),
        uploading(agent, channel) as call,
    ):
        sent = run.start(task_pb2.ORIGIN_AGENT), run.batch(1, rows(count))
        assert await answers(call, *sent) == [STORED, STORED]


async def test_labels(start_server: StartServer, tmp_path: Path) -> None:
    """A token for several machines gives them labels; people change them later."""
    async with start_server() as server:
        token = await token_of(server, uses=2, labels={"role": "gpu", "rack": "r1"})
        members = []
        for name in ("one", "two"):
            await join(server.enrol, token, tmp_path / name)
            members.append(Membership(tmp_path / name))
        with pytest.raises(NotJoined, match="the token was used"):
            await join(server.enrol, token, tmp_path / "three")
        one = members[0]
        async with agent_of(one).attending(server):
            assert (await node(server))["labels"] == {"role": "gpu", "rack": "r1"}
            status, said = await server.ask(
                "POST", f"nodes/{one.machine_id}/labels", json={"role": "cpu", "rack": None, "app.io/x": "1"}
            )
            assert (status, said) == (200, {"labels": {"role": "cpu", "app.io/x": "1"}})
            assert (await node(server))["labels"] == said["labels"]
        bodies: list[dict[str, Any]] = [{"a b": "x"}, {"-": None}, {"a": {}}, {"a": ""}]
        for body in bodies:
            status, said = await server.ask("POST", f"nodes/{one.machine_id}/labels", json=body)
            assert (status, [one["pointer"] for one in said["errors"]]) == (400, [f"#/{next(iter(body))}"]), said
        assert (await server.ask("POST", "nodes/nobody/labels", json={"a": "b"}))[0] == 404


async def test_a_database_from_an_older_backup(start_server: StartServer, tmp_path: Path) -> None:
    """A machine that joined after the backup is known by its certificate, and shown until an admin confirms it."""
    async with start_server() as server:
        member = await joined(server, tmp_path)
        await asyncio.to_thread(server.query, "TRUNCATE store.members, store.certificates, store.join_tokens")
        async with agent_of(member).attending(server, to_server(server.ingest, member.credentials)):
            assert (await node(server))["membership"] == "unconfirmed"
            assert (await server.ask("POST", "nodes/stand-in/confirm"))[0] == 200
            assert (await node(server))["membership"] == "joined"
            assert (await server.ask("POST", "nodes/stand-in/confirm"))[0] == 404


async def test_a_person_is_no_machine(start_server: StartServer) -> None:
    """What is revoked is what is named: a machine's revocation names no person."""
    async with start_server() as server, StandInAgent().attending(server):
        assert (await server.ask("POST", f"certificates/{MACHINE}/revoke"))[0] == 404
        assert (await node(server))["connected"]
