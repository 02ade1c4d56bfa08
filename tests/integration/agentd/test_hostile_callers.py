"""Hostile callers of an agent: all methods of its port, with each certificate that must not make them."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tests.fleet import (
    UNEXAMINED,
    make_member,
    of_machine,
    of_person,
    shake_hands,
    signed_days_ago,
    to_agent,
)
from tests.half_open import disturb_nobody
from tests.integration.agentd.driving import request, scraped, start, tasks_of, until
from tests.integration.agentd.stand_in_server import StandInServer
from tests.ports import free_port

from scope_agentd.control import auth
from scope_proto.scope.v1 import control_pb2
from scope_server.identity.authority import Authority
from scope_wire.calls import MOST_CALLS
from scope_wire.identity import AGENT_NAME, Identity, Kind, Role
from scope_wire.keys import Anonymous
from scope_wire.limits import MESSAGE_BYTES

StartAgent = Callable[..., Any]
Code = grpc.StatusCode
CONTROL, *OPEN = (
    described.services_by_name[name]
    for described, name in (
        (control_pb2.DESCRIPTOR, "AgentControl"),
        (health_pb2.DESCRIPTOR, "Health"),
        (reflection_pb2.DESCRIPTOR, "ServerReflection"),
    )
)
METHODS = [method for service in (CONTROL, *OPEN) for method in service.methods]
REFUSED = "scope_agent_refused_peers_total"
CHANGES = {"StartTask", "StopTask"}
PATIENCE_S = 60


def call(channel: Any, method: Any, *messages: bytes) -> Any:
    """A call of any method, with these serialized messages."""

    async def sent() -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    return stream(channel, method, sent())


def stream(channel: Any, method: Any, messages: AsyncIterator[bytes]) -> Any:
    """The same, with any number of messages: what a method takes is for the server to say."""
    return cast("Any", channel).stream_stream(path_of(method))(messages, timeout=PATIENCE_S)


def path_of(method: Any) -> str:
    """A method's path."""
    return f"/{method.containing_service.full_name}/{method.name}"


async def code_of(started: Any) -> Code:
    """How a call ends; OK once there is an answer."""
    try:
        async for _ in started:
            return Code.OK
        return Code(await started.code())
    except grpc.aio.AioRpcError as error:
        return error.code()
    finally:
        started.cancel()


async def codes_of(channel: Any) -> dict[str, Code]:
    """How each method ends, by its name.

    Streams get their only message together with their end: grpc.aio forgets why it was refused if it sends in between.
    """
    return {
        method.name: await (
            cast("Any", channel).unary_unary(path_of(method))(b"", timeout=PATIENCE_S).code()
            if method.client_streaming
            else code_of(call(channel, method, b""))
        )
        for method in METHODS
    }


async def counted(port: int, reason: str) -> dict[str, float]:
    """Refused peers by reason, once there is one with this reason."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = {name: count for name, count in (await scraped(port)).items() if name.startswith(REFUSED)}
            counts = {name.split('"')[1]: count for name, count in found.items()}
            if counts[reason]:
                return counts
            await asyncio.sleep(0.05)


async def test_no_call_without_a_valid_certificate(
    server: StandInServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a certificate, with one of another authority, an expired one, in plain text or with TLS 1.2 there is no
    connection. A revoked person may call nothing, machines and servers may ask for health and services, a viewer may
    change nothing. All are counted by reason, and the log has one line for each reason, however many there were."""
    control, port = f"127.0.0.1:{free_port()}", free_port()
    make_member(tmp_path, server.authority, f"127.0.0.1:{server.port}")
    words = ["--state-dir", str(tmp_path), "--control", control, "--metrics", f"127.0.0.1:{port}", *UNEXAMINED]
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    authority, log = server.authority, tmp_path / "log"
    with signed_days_ago(monkeypatch, 31):
        expired = of_person(authority)
    foreign = of_person(Authority(tmp_path / "other"))
    foreign = replace(foreign, authorities=(*foreign.authorities, authority.certificate))  # it accepts the agent
    revoked = of_person(authority)
    with (
        log.open("wb") as out,
        subprocess.Popen(
            ["prlimit", "--nofile=1024:8192", sys.executable, "-m", "scope_cli.main", "agentd", *words],
            stderr=out,
            env=environment,
        ) as agent,
    ):
        try:
            await until(lambda: server.reports)
            server.revoke(revoked.holder.serial)
            await until((tmp_path / "revoked").exists)
            assert resource.prlimit(agent.pid, resource.RLIMIT_NOFILE) == (
                8192,
                8192,
            )  # half-open connections have room
            no_connection = dict.fromkeys((method.name for method in METHODS), Code.UNAVAILABLE)
            for shown in (Anonymous((authority.certificate,)), foreign, expired):
                async with to_agent(control, shown) as channel:
                    assert await codes_of(channel) == no_connection
            async with grpc.aio.insecure_channel(control) as channel:
                assert await codes_of(channel) == no_connection
            assert await asyncio.to_thread(shake_hands, control, AGENT_NAME, of_person(authority), "TLSv1_2") is None
            async with to_agent(control, revoked) as channel:
                assert await codes_of(channel) == dict.fromkeys(
                    (method.name for method in METHODS), Code.UNAUTHENTICATED
                )
            for stranger in (of_machine(authority, "0" * 32), authority.issue(Identity(Kind.SERVER))):
                async with to_agent(control, stranger) as channel:
                    for name, code in (await codes_of(channel)).items():
                        assert code is (Code.PERMISSION_DENIED if name in CONTROL.methods_by_name else Code.OK), name
            async with to_agent(control, of_person(authority, Role.VIEWER)) as channel:
                for name in CHANGES:
                    assert await code_of(call(channel, CONTROL.methods_by_name[name], b"")) is Code.PERMISSION_DENIED
            counts = await counted(port, "handshake")
        finally:
            agent.terminate()
            assert await asyncio.to_thread(agent.wait, PATIENCE_S) == 0
    assert counts["revoked"] == len(METHODS)
    assert counts["not_a_person"] == 2 * len(CONTROL.methods)
    assert counts["role"] == len(CHANGES)
    noted = ("no_certificate", "wrong_authority", "expired", "plain_text", "handshake")
    assert all(counts[reason] > 0 for reason in noted), counts
    assert sum(counts.values()) == sum(counts[reason] for reason in (*noted, "revoked", "not_a_person", "role"))
    lines = log.read_text().splitlines()
    for reason in (*noted, "revoked", "not_a_person", "role"):
        assert len([line for line in lines if f"reason={reason} " in line]) == 1, lines
    assert not [line for line in lines if "a peer was refused" not in line]


async def test_an_open_connection_ends_with_the_certificate(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired certificate is refused, also on a connection that began before."""

    class Later(datetime):
        @classmethod
        def now(cls, zone: Any = None) -> Any:
            return datetime.now(zone) + timedelta(days=31)

    async with start_agent() as agent, to_agent(agent.address, of_person(server.authority)) as channel:
        assert await code_of(call(channel, CONTROL.methods_by_name["GetNode"], b"")) is Code.OK
        monkeypatch.setattr(auth, "datetime", Later)
        assert set((await codes_of(channel)).values()) == {Code.UNAUTHENTICATED}


async def test_what_is_no_message(
    start_agent: StartAgent, server: StandInServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages that are too large or cannot be read end their call with an error, and each method logs it once in 10 s.
    Streams without an end disturb no other call."""
    endless: list[Any] = []

    async def forever() -> AsyncIterator[bytes]:
        while True:
            yield b""
            await asyncio.sleep(0)

    async with start_agent() as agent, to_agent(agent.address, of_person(server.authority, name="loud")) as channel:
        for method in METHODS:
            for message in (*[b"\xff" * 1009] * 5, b"\x0a\xff\xff\xff\xff\x0f", b"\0" * (MESSAGE_BYTES + 1)):
                code = await code_of(call(channel, method, message))
                assert code in (Code.INTERNAL, Code.UNKNOWN, Code.RESOURCE_EXHAUSTED, Code.INVALID_ARGUMENT), (
                    method.name
                )
            if method.name != "ListProbes":  # its first message would have all probes tried
                endless.append(stream(channel, method, forever()))
        async with asyncio.timeout(PATIENCE_S):
            task = await start(agent, request("process"))
            assert await code_of(call(channel, CONTROL.methods_by_name["ListTasks"], b"")) is Code.OK
        for started in endless:
            started.cancel()
        said = [record.getMessage() for record in caplog.records if "Unexpected" in record.getMessage()]
        assert sorted(said) == sorted(set(said)) and len(said) == len(METHODS)
        assert task.task_id in await tasks_of(agent)


async def test_calls_that_never_end(start_agent: StartAgent, server: StandInServer) -> None:
    """A person whose messages never come has a bounded number of calls on all connections; others have theirs."""

    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(PATIENCE_S)
        yield b""

    loud = of_person(server.authority, name="loud")
    async with start_agent() as agent, to_agent(agent.address, loud) as one, to_agent(agent.address, loud) as other:
        held = [stream(channel, CONTROL.methods_by_name["StopTask"], never()) for channel in [one] * 11 + [other] * 11]
        ending = [asyncio.create_task(each.code()) for each in held]
        async with asyncio.timeout(PATIENCE_S):
            for ended in islice(asyncio.as_completed(ending), len(held) - MOST_CALLS):
                assert await ended is Code.RESOURCE_EXHAUSTED
            await tasks_of(agent)
        for each in held:
            each.cancel()


async def test_half_open_connections(start_agent: StartAgent, server: StandInServer) -> None:
    """A thousand that connect and then say nothing, or half a greeting, slow down nobody else."""
    async with start_agent() as agent:

        async def ask() -> None:
            await tasks_of(agent)

        async def connect() -> None:
            async with to_agent(agent.address, of_person(server.authority)) as channel:
                assert await code_of(call(channel, CONTROL.methods_by_name["GetNode"], b"")) is Code.OK

        for works in (ask, connect):
            await disturb_nobody([int(agent.address.rpartition(":")[2])], works, works.__name__)
