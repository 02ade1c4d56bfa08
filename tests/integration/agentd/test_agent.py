"""The agent on its host: ports, callers, metrics, state directory."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.fleet import make_member, of_machine, of_person, to_agent
from tests.grpcurl import grpcurl
from tests.integration.agentd.conftest import control_of
from tests.integration.agentd.driving import (
    Caller,
    Failure,
    definition,
    held_calls,
    request,
    run_to_end,
    scraped,
    start,
    stop,
    tasks_of,
    until,
)
from tests.integration.agentd.stand_in_server import StandInServer, wanted

from scope_agentd.definition import Definition, check_definition
from scope_agentd.errors import AgentError, InvalidSettings, PortTaken, SpoolFailed, StateUnusable
from scope_agentd.pipeline.spool.log import Log
from scope_agentd.settings import Settings
from scope_bpf.capture.tracer import Tracer
from scope_bpf.host import features
from scope_bpf.probes import probes
from scope_proto.scope.v1 import control_pb2, task_pb2
from scope_server.identity.authority import Authority
from scope_wire.channel import open_channel
from scope_wire.endpoint import Endpoint
from scope_wire.identity import AGENT_NAME, Role
from scope_wire.keys import Anonymous

StartAgent = Callable[..., Any]


@pytest.mark.parametrize("role", Role)
async def test_a_role_allows_calls(start_agent: StartAgent, server: StandInServer, role: Role) -> None:
    """A viewer sees tasks, but only operators and admins start and stop them."""
    async with start_agent() as agent, to_agent(agent.address, of_person(server.authority, role)) as channel:
        control = control_of(channel)
        task = await start(agent, request("process"))
        assert [one.task_id for one in (await control.ListTasks(control_pb2.ListTasksRequest())).tasks] == [
            task.task_id
        ]
        assert (await anext(aiter(control.WatchTasks(control_pb2.WatchTasksRequest())))).task_id == task.task_id
        for method, asked in (
            ("StartTask", request("process")),
            ("StopTask", control_pb2.StopTaskRequest(task_id=task.task_id)),
        ):
            if role is not Role.VIEWER:
                await getattr(control, method)(asked)
                continue
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await getattr(control, method)(asked)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert f"scope:operator/viewer/tester may not call {method}" in str(refused.value.details())
        assert len(await tasks_of(agent)) == (1 if role is Role.VIEWER else 2)


async def test_a_person_while_the_authority_is_replaced(
    start_agent: StartAgent, server: StandInServer, tmp_path: Path
) -> None:
    """The real grpcurl calls an agent that has a certificate of the next root, with a file that has both roots; the
    file of before does not know this agent."""
    before, meanwhile = tmp_path / "before.pem", tmp_path / "meanwhile.pem"
    of_person(server.authority).write(before)
    server.authority.begin_rotation()
    of_person(server.authority).write(meanwhile)
    assert meanwhile.read_text().count("BEGIN CERTIFICATE") == 3
    async with start_agent() as agent:
        for file, status, told in ((meanwhile, 0, "installation_id"), (before, 1, "unknown authority")):
            shown = ["-cacert", file, "-cert", file, "-key", file, "-servername", AGENT_NAME]
            command = [grpcurl(), *shown, agent.address, "scope.v1.AgentControl/GetNode"]
            ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
            assert (ran.returncode, told in ran.stdout + ran.stderr) == (status, True), ran


async def test_a_revoked_person_is_refused(start_agent: StartAgent, server: StandInServer) -> None:
    """Once the server has said so, and after a restart without the server, too; others are not. What the person watched
    ends before it tells anything else."""
    person = of_person(server.authority)
    for again in (False, True):
        async with start_agent() as agent, to_agent(agent.address, person) as channel:
            if not again:
                task = await start(agent, request("process"))
                watched = aiter(control_of(channel).WatchTasks(control_pb2.WatchTasksRequest()))
                assert (await anext(watched)).task_id == task.task_id
                await until(lambda: server.reports)
                server.revoke(person.holder.serial)
                await until((agent.settings.state_dir / "revoked").exists)
                await stop(agent, task.task_id)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await anext(watched)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                await server.stop()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await control_of(channel).ListTasks(control_pb2.ListTasksRequest())
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert set(await tasks_of(agent)) == ({task.task_id} if not again else set())


async def test_machines_and_strangers_are_refused(
    start_agent: StartAgent, server: StandInServer, tmp_path: Path
) -> None:
    """A machine's certificate allows nothing but health checks; without one of this fleet there is no connection."""
    strangers = Authority(tmp_path / "another")
    shown = {
        "machine": of_machine(server.authority, "0" * 32),
        "stranger": of_person(strangers),
        "nothing": Anonymous((server.authority.certificate,)),
    }
    async with start_agent() as agent:
        for who, credentials in shown.items():
            at = Endpoint.parse(agent.address, "agent").showing(lambda shown=credentials: shown)
            async with open_channel(at, AGENT_NAME) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await control_of(channel).ListTasks(control_pb2.ListTasksRequest())
                codes = grpc.StatusCode
                assert refused.value.code() is (codes.PERMISSION_DENIED if who == "machine" else codes.UNAVAILABLE)
        async with grpc.aio.insecure_channel(agent.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await control_of(channel).ListTasks(control_pb2.ListTasksRequest(), timeout=5)


async def test_probes_are_tried_once_and_told(start_agent: StartAgent, server: StandInServer) -> None:
    """The agent tries its probes once, unasked. It tells the server each with its availability, attach point, streams
    and columns, on every connection, and the features of the host; it answers ListProbes with the same. If it is to,
    it also tries other options."""
    async with start_agent(examine_after_s=0, examine_with="options") as agent:
        await until(lambda: server.probes, 300)
        told, server.probes = server.probes, None
        server.ask_for_probes()
        await until(lambda: server.probes, 300)
        assert server.probes == told
        assert await agent.control.ListProbes(control_pb2.ListProbesRequest()) == told
        server.probes = None
        await server.stop()
        await server.start()
        await until(lambda: server.probes, 300)
    assert server.probes == told
    assert [probe.name for probe in told.probes] == list(probes())
    assert [(one.name, one.available, one.reason) for one in told.host] == [astuple(one) for one in features()]
    syscalls = next(probe for probe in told.probes if probe.name == "syscalls")
    assert all(not probe.no_device for probe in told.probes if probe.available)
    assert syscalls.available and syscalls.attach_point
    assert ("mode=summary", "") in [(one.option, one.reason) for one in syscalls.tried]
    assert {stream.name: stream.mode for stream in syscalls.streams} == {
        "syscall": "events",
        "syscall_summary": "summary",
    }
    assert {column.name: column.unit for column in syscalls.streams[0].columns}["duration_ns"] == "ns"


@pytest.mark.parametrize("begun", ["cygrpc", "spool"])
async def test_an_agent_that_is_told_to_stop_while_it_starts_ends_in_order(
    tmp_path: Path, server: StandInServer, port: int, begun: str
) -> None:
    """SIGTERM ends an agent with status 0, also while it still imports its modules, or starts its parts."""
    make_member(tmp_path, server.authority, f"127.0.0.1:{server.port}")
    words: list[str | Path] = ["--state-dir", tmp_path, "--control", "127.0.0.1:0", "--metrics", f"127.0.0.1:{port}"]
    with subprocess.Popen([sys.executable, "-m", "scope_cli.main", "agentd", *words]) as process:
        reached = {
            "cygrpc": lambda: "cygrpc" in Path(f"/proc/{process.pid}/maps").read_text(),
            "spool": (tmp_path / "spool").exists,
        }
        await until(reached[begun])
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0


SYSCALLS = 'scope_events_total{probe="syscalls",stream="syscall"}'


async def test_metrics_have_every_counter_and_no_open_label(start_agent: StartAgent, port: int) -> None:
    """/metrics counts events by probe and stream, and shows the state of tasks; no label contains a pid."""
    command = held_calls(1009)
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        await run_to_end(command)
        metrics: dict[str, float] = {}
        while metrics.get(SYSCALLS) != 1009:
            metrics = await scraped(port)
        assert metrics['scope_tasks{state="running"}'] == 1
        assert metrics["scope_agent_spool_limit_bytes"] == agent.settings.spool_bytes
        assert not [name for name in metrics if re.search(rf"\b{command.pid}\b", name)]  # identifiers may contain it
        await stop(agent, task.task_id)
        after = await scraped(port)
    assert (after[SYSCALLS], after['scope_tasks{state="stopped"}']) == (1009, 1)


async def test_a_task_that_never_started_is_counted_once(
    start_agent: StartAgent, server: StandInServer, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is no longer wanted before its first run counts as starting until it has ended, then as stopped."""
    checks, go_on = threading.Event(), threading.Event()

    def slow(wanted: task_pb2.Definition) -> Definition:
        checks.set()
        go_on.wait(60)
        return check_definition(wanted)

    monkeypatch.setattr("scope_agentd.task.check_definition", slow)
    server.want(wanted(str(uuid.uuid4()), definition("process")))
    async with start_agent(metrics=f"127.0.0.1:{port}"):
        await until(checks.is_set)
        assert (await scraped(port))['scope_tasks{state="starting"}'] == 1
        server.want()
        await until(lambda: server.reports[-1].wanted_number == 2)
        go_on.set()
        while (await scraped(port))['scope_tasks{state="stopped"}'] != 1:
            await asyncio.sleep(0.05)


async def test_counters_never_fall(
    start_agent: StartAgent, server: StandInServer, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's events stay counted after a retry or after its task is forgotten, even if nobody scraped in between."""
    monkeypatch.setattr("scope_agentd.tasks.ENDED_TASKS_KEPT", 1)
    monkeypatch.setattr("scope_agentd.task.FIRST_PAUSE_S", 0.1)
    failure = Failure(monkeypatch, Tracer, "poll")
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        with Caller() as caller:
            task = await start(agent, request(pid=caller.pid, names="getppid"))
            await _call_and_see(caller, 1009, server, task.task_id)
            failure.begin()
            await failure.end()
            await until(lambda: len(server.of_all(task.task_id)) == 2)
            await _call_and_see(caller, 2003, server, task.task_id)
            await stop(agent, task.task_id)
        for _ in range(2):
            other = await start(agent, request("process"))
            await stop(agent, other.task_id)
        assert task.task_id not in await tasks_of(agent)
        metrics = await scraped(port)
        assert (metrics[SYSCALLS], metrics['scope_tasks{state="stopped"}']) == (3012, 2)
        assert (await scraped(port))[SYSCALLS] == 3012


async def _call_and_see(caller: Caller, count: int, server: StandInServer, task_id: str) -> None:
    caller.call(count)
    await until(lambda: server.runs and server.of(task_id).stream("syscall").account.emitted == count)


async def test_ports_that_are_taken_are_named(start_agent: StartAgent) -> None:
    """A taken port is an error that names the address and the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for name in ("control", "metrics"):
            with pytest.raises(PortTaken, match=f"cannot listen on {address}.*--{name}"):
                async with start_agent(**{name: address}):
                    pass


@pytest.mark.parametrize(
    ("name", "address"),
    [("control", "127.0.0.1"), ("control", "127.0.0.1:99999"), ("server", "nonsense"), ("metrics", "0.0.0.0:1")],
)
def test_addresses_are_checked(name: str, address: str, tmp_path: Path) -> None:
    """A malformed address is refused, as is one of metrics, which have no TLS, that other machines could reach."""
    with pytest.raises(InvalidSettings, match=f"{name}: "):
        Settings(tmp_path, **dict[str, Any]({name: address}))


async def test_two_agents_cannot_share_a_state_directory(start_agent: StartAgent) -> None:
    """A second agent with the same state directory fails, and the error says why."""
    async with start_agent():
        with pytest.raises(AgentError, match="another"):
            async with start_agent():
                pass


async def test_an_unusable_state_directory_is_one_clear_error(start_agent: StartAgent, tmp_path: Path) -> None:
    """A file in place of the state directory is reported as one clear error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot use the state directory"):
        async with start_agent(state_dir=tmp_path / "file"):
            pass


async def test_an_agent_whose_spool_failed_ends(start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent ends with the error, even if callers are connected: its records might not survive a power cut."""

    def fails(_: Log) -> list[int]:
        monkeypatch.undo()
        raise RuntimeError("made up")

    with pytest.raises(ExceptionGroup) as ended:
        async with start_agent() as agent:
            monkeypatch.setattr(Log, "to_sync", fails)
            async with asyncio.timeout(60):
                with pytest.raises(grpc.aio.AioRpcError):
                    while True:
                        await tasks_of(agent)
                        await asyncio.sleep(0.05)
    (error,) = ended.value.exceptions
    assert isinstance(error, SpoolFailed) and "made up" in str(error.__cause__)


@pytest.fixture
def stranger() -> Iterator[int]:
    """The pid of a process that makes syscalls all the time and does not descend from the test."""
    calls = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(0.02)"
    command = ["setsid", "--fork", sys.executable, "-S", "-c", calls]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.stdout.close()
    yield pid
    os.kill(pid, signal.SIGKILL)


async def test_the_agent_does_not_record_itself(start_agent: StartAgent, server: StandInServer, stranger: int) -> None:
    """A task for the whole machine records other programs, but not the agent's own process."""

    def recorded() -> set[int]:
        return {row["pid"] for run in server.runs.values() for row in run.rows("syscall")}

    async with start_agent() as agent:
        task = await start(agent, request())
        await until(lambda: stranger in recorded())
        await stop(agent, task.task_id)
    assert os.getpid() not in recorded()


async def test_an_agent_says_which_machine_and_installation_it_is(
    start_agent: StartAgent, server: StandInServer
) -> None:
    """The hello names host, machine and installation, the same after a restart, and the times of both clocks."""
    async with start_agent():
        await until(lambda: server.hellos)
    first = server.hellos[-1]
    server.hellos.clear()
    async with start_agent():
        await until(lambda: server.hellos)
    last = server.hellos[-1]
    assert first.node.hostname == socket.gethostname()
    assert (first.node.machine_id, first.node.installation_id) == (last.node.machine_id, last.node.installation_id)
    assert len(first.node.machine_id) == 32 and first.node.installation_id
    assert 0 < first.ktime_ns < last.ktime_ns < last.utc_ns
