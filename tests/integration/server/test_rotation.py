"""The fleet's authority is replaced while agents are connected, or comes from outside; a server has several names."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from tests.fleet import signed_days_ago, to_server
from tests.integration.server.running import Server, node, until
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.test_absence import agent, connected
from tests.integration.server.test_enrolment import code_of, renewed, token_of
from tests.integration.server.test_members import joined

from scope_agentd.errors import NotJoined
from scope_agentd.identity.introduction import certificate_of
from scope_agentd.identity.join import join
from scope_agentd.identity.membership import Fleet, Membership, keep
from scope_agentd.identity.renewal import come_back
from scope_agentd.session import link
from scope_server.errors import InvalidSettings
from scope_server.identity import register
from scope_server.identity.authority import Authority
from scope_server.identity.root import Root
from scope_wire.endpoint import Endpoint
from scope_wire.identity import Identity, Kind
from scope_wire.join_token import digest_of
from scope_wire.keys import pem_of, write_private

StartServer = Callable[..., Any]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "_READ_EVERY_S", 0.2)
    monkeypatch.setattr(link, "ASK_EVERY_S", 0.2)


async def progress(server: Server) -> dict[str, bool]:
    """Which machines have the next root, by hostname."""
    found = await server.get("authority", "rotation")
    return {one["hostname"]: one["has_next"] for one in found["machines"]}


async def test_the_authority_is_replaced(start_server: StartServer, tmp_path: Path, port: int) -> None:
    """Both roots overlap. Connected agents get the next one by themselves; one that does not keeps the replacement from
    being finished. After that, the agent is connected as before, and certificates of the first root are refused."""
    here, state = socket.gethostname(), tmp_path / "agent"
    async with start_server() as server:
        before = await joined(server, state)
        slow = await joined(server, tmp_path / "slow")
        old_token = await token_of(server)
        async with agent(state, port):
            await until(lambda: server.get("nodes"), lambda found: any(one["connected"] for one in found["nodes"]))
            stand_in = StandInAgent("slow", slow.machine_id)
            async with to_server(server.ingest, slow.credentials) as channel, stand_in.attending(server, channel):
                status, said = await server.ask("POST", "authority/rotation/begin")
                assert (status, said["rotates"]) == (200, True)
                assert (await server.ask("POST", "authority/rotation/begin"))[0] == 409
                await until(lambda: progress(server), lambda found: found == {here: True, "slow": False})
                status, said = await server.ask("POST", "authority/rotation/finish")
                assert (status, "1 connected agents lack the next root: slow" in said["detail"]) == (409, True)
                between = await joined(server, tmp_path / "between")
                assert between.credentials.authorities == Membership(state).credentials.authorities
                assert len(between.credentials.authorities) == 2
            await until(lambda: server.get("nodes"), lambda found: sum(one["connected"] for one in found["nodes"]) == 1)
            assert (await server.ask("POST", "authority/rotation/finish"))[0] == 200
            assert (await server.ask("POST", "authority/rotation/finish"))[0] == 409
            after = await until(
                lambda: asyncio.to_thread(Membership, state), lambda found: len(found.credentials.authorities) == 1
            )
            await until(lambda: server.get("nodes"), lambda found: any(one["connected"] for one in found["nodes"]))
        assert after.machine_id == before.machine_id
        assert after.credentials.authorities != before.credentials.authorities
        assert after.fleet.fleet == before.fleet.fleet
        async with to_server(server.ingest, after.credentials) as channel:
            assert (await renewed(channel, after)).identity.name == after.machine_id
        for credentials in (before.credentials, slow.credentials):
            async with to_server(server.ingest, credentials) as channel:
                assert await code_of(renewed(channel)) is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(NotJoined, match="this is not the server that made the token"):
            await join(server.enrol, old_token, tmp_path / "late")
        await joined(server, tmp_path / "later")


async def replaced(server: Server) -> None:
    """The authority's root is replaced while nobody is connected."""
    for step in ("begin", "finish"):
        assert (await server.ask("POST", f"authority/rotation/{step}"))[0] == 200


async def test_away_during_the_whole_replacement(start_server: StartServer, tmp_path: Path, port: int) -> None:
    """A machine that returns after its root was replaced twice is the same, and trusts the newest root only."""
    async with start_server() as server:
        before = await joined(server, tmp_path / "agent")
        await replaced(server)
        await replaced(server)
        async with agent(tmp_path / "agent", port):
            await connected(server)
        after = Membership(tmp_path / "agent")
        assert (after.machine_id, after.fleet.fleet) == (before.machine_id, before.fleet.fleet)
        assert after.credentials.authorities == (Authority(tmp_path / "authority").certificate,)
        assert after.credentials.holder.key == before.credentials.holder.key


async def test_a_stolen_key_of_a_replaced_root(start_server: StartServer, tmp_path: Path) -> None:
    """It makes nobody a machine, neither by a new certificate nor by one that was shown before the replacement; an
    admin's confirmation does."""
    async with start_server() as server:
        stolen = Authority(tmp_path / "authority")
        shown = _forged(stolen, tmp_path / "shown", server, "1" * 32)
        unseen = _forged(stolen, tmp_path / "unseen", server, "2" * 32)
        async with to_server(server.ingest, shown.credentials) as channel:
            async with StandInAgent("shown", shown.machine_id).attending(server, channel):
                await renewed(channel)  # with another key
            assert (await node(server))["membership"] == "unconfirmed"
        assert server.query("SELECT confirmed FROM store.members") == [(False,), (False,)]
        await replaced(server)
        for forged in (shown, unseen):
            await come_back(forged)
            assert "the server does not know its key" in forged.fleet.needs_token
        assert (await server.ask("POST", "nodes/shown/confirm"))[0] == 200
        await come_back(shown)
        assert not shown.fleet.needs_token


def _forged(authority: Authority, state: Path, server: Server, machine: str) -> Membership:
    """A membership that the authority's key has signed, but not for a token."""
    state.mkdir()
    fleet = Fleet("", "", (server.ingest,), (server.enrol,))
    keep(state, authority.issue(Identity(Kind.MACHINE, machine)), fleet)
    return Membership(state)


async def test_another_server_is_not_followed(start_server: StartServer, tmp_path: Path) -> None:
    """Where a machine's server was, another one with other roots gets and changes nothing."""
    async with start_server() as server:
        member = await joined(server, tmp_path / "agent")
    before = member.credentials, member.fleet
    async with start_server(authority=tmp_path / "other", enrol=server.enrol) as other:
        await replaced(other)
        await come_back(member)
        assert (member.credentials, member.fleet) == before


async def test_who_trusts_a_root_that_was_given_up_renews(start_server: StartServer, tmp_path: Path) -> None:
    """An agent that was away at that moment, though its certificate is of the newest root, is asked when it is back."""
    async with start_server() as server, AsyncExitStack() as attending:
        stand_ins = []
        for name, also in (("there", ()), ("away", (b"x" * 32,))):
            member = await joined(server, tmp_path / name)
            stand_in = StandInAgent(name, member.machine_id)
            stand_in.roots = (*map(digest_of, member.credentials.authorities), *also)
            channel = await attending.enter_async_context(to_server(server.ingest, member.credentials))
            await attending.enter_async_context(stand_in.attending(server, channel))
            stand_ins.append(stand_in)
        there, away = stand_ins
        async with asyncio.timeout(60):
            while away.renewals < 2:
                await asyncio.sleep(0.05)
        assert there.renewals == 0


async def test_servers_of_one_fleet_replace_it_together(tmp_path: Path) -> None:
    """A server takes the roots that another one has written."""
    one, other = Authority(tmp_path), Authority(tmp_path)
    for step in (one.begin_rotation, one.finish_rotation):
        step()
        other.reread()
        assert other.trusted == one.trusted
        assert (other.certificate, other.rotates) == (one.certificate, one.rotates)


async def test_an_authority_from_outside(start_server: StartServer, tmp_path: Path) -> None:
    """It signs, and is not replaced from here. What is no root is refused at the start, by name."""
    files = tmp_path / "ca.pem", tmp_path / "ca-key.pem"
    root = Root.make()
    write_private(files[0], pem_of(root.certificate))
    write_private(files[1], pem_of(root.key))
    async with start_server(ca_cert=files[0], ca_key=files[1]) as server:
        member = await joined(server, tmp_path / "agent")
        assert member.credentials.authorities == (root.certificate,)
        status, said = await server.ask("POST", "authority/rotation/begin")
        assert (status, "--ca-cert" in said["detail"]) == (409, True)
    leaf = member.credentials
    leaf.write(tmp_path / "leaf.pem")
    with pytest.raises(InvalidSettings, match=r"ca\.pem is of another key than leaf\.pem"):
        Authority(tmp_path / "authority", (files[0], tmp_path / "leaf.pem"))
    with pytest.raises(InvalidSettings, match="goes with ca_key"):
        async with start_server(ca_cert=files[0]):
            pass


async def test_a_server_of_several_names(start_server: StartServer, tmp_path: Path, port: int) -> None:
    """Its certificate has all of them, and machines know all: an agent connects by the second if nobody has the
    first."""
    state = tmp_path / "agent"
    async with start_server(advertise=("127.1.2.3", "127.0.0.1", "scope.example")) as server:
        member = await joined(server, state)
        ingest = Endpoint.parse(server.ingest, "ingest").port
        assert member.fleet.servers == (f"127.1.2.3:{ingest}", f"127.0.0.1:{ingest}", f"scope.example:{ingest}")
        shown = await asyncio.to_thread(certificate_of, Endpoint.parse(server.enrol, "enrol"))
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "scope.example" in names.get_values_for_type(x509.DNSName)
        assert ipaddress.ip_address("127.1.2.3") in names.get_values_for_type(x509.IPAddress)
        async with agent(state, port):
            await connected(server)
            assert (await node(server))["machine_id"] == member.machine_id
        for name in ("http://x", "a:1", "", "a b", "-" * 64):
            with pytest.raises(InvalidSettings, match=r"advertise: .* is neither a name nor an address"):
                async with start_server(advertise=(name,)):
                    pass


async def test_a_renamed_server(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """An agent that reaches it by an old name learns the new one at once, and reaches it when the old one is gone."""
    state = tmp_path / "agent"
    async with start_server(advertise=("127.0.0.1",)) as server:
        with signed_days_ago(monkeypatch, 1):
            before = await joined(server, state)
    ports = [Endpoint.parse(each, "port").port for each in (server.ingest, server.enrol)]
    renamed = {"advertise": ("127.1.2.3",), "ingest": f"0.0.0.0:{ports[0]}", "enrol": f"0.0.0.0:{ports[1]}"}
    async with agent(state, port):
        async with start_server(**renamed):
            after = await until(lambda: asyncio.to_thread(Membership, state), lambda found: found.fleet != before.fleet)
            assert after.fleet.servers == (f"127.1.2.3:{ports[0]}",)
            assert after.fleet.enrolments == (f"127.1.2.3:{ports[1]}",)
            assert after.machine_id == before.machine_id
        async with start_server(**{**renamed, "ingest": f"127.1.2.3:{ports[0]}"}) as server:
            await connected(server)


async def test_addresses_are_learnt_once_an_hour(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of a fleet that advertise different names do not have their machines renew again and again; and who knows
    the addresses, or does not say, does not renew."""
    async with start_server() as server, AsyncExitStack() as attending:
        stand_ins, other = {}, "10.0.0.7:8471"
        machines = {"new": (0, [other]), "old": (1, [other]), "right": (1, [server.ingest]), "silent": (1, [])}
        for name, (days, knows) in machines.items():
            with signed_days_ago(monkeypatch, days):
                member = await joined(server, tmp_path / name)
            stand_in = stand_ins[name] = StandInAgent(name, member.machine_id)
            stand_in.servers, stand_in.enrolments = tuple(knows), (server.enrol,)
            channel = await attending.enter_async_context(to_server(server.ingest, member.credentials))
            await attending.enter_async_context(stand_in.attending(server, channel))
        async with asyncio.timeout(60):
            while stand_ins["old"].renewals < 2:
                await asyncio.sleep(0.05)
        assert {name for name, stand_in in stand_ins.items() if stand_in.renewals} == {"old"}
