"""The agent with the real kernel on one side and a stand-in for the server on the other."""

import asyncio
import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from tests.integration.agentd.conftest import StandInServer, call_metadata

from scope_agentd.errors import InvalidSettings, PortTaken
from scope_agentd.settings import Settings
from scope_bpf.catalogue import probe_named, probes
from scope_bpf.command import HeldCommand
from scope_bpf.stream import fingerprint
from scope_proto.scope.v1 import control_pb2, ingest_pb2

StartAgent = Callable[..., Any]
SPIN = "import os\nfor _ in range({}): os.getppid()"


def request(probe: str = "syscalls", pid: int = 0, task_id: str = "", **options: Any) -> control_pb2.StartTaskRequest:
    message = control_pb2.StartTaskRequest(probe=probe, target=control_pb2.Target(pid=pid), task_id=task_id)
    json_format.ParseDict(options, message.options)
    return message


async def run_to_end(command: HeldCommand) -> None:
    command.release()
    while command.poll() is None:
        await asyncio.sleep(0.02)


async def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_task_is_recorded_sent_and_accounted_for(start_agent: StartAgent, server: StandInServer) -> None:
    """Every call of a workload of known count reaches the server, once, and the books balance."""
    command = HeldCommand(["/usr/bin/python3", "-c", SPIN.format(100_003)])
    async with start_agent() as agent:
        task = await agent.control.StartTask(request(pid=command.pid, names="getppid"), metadata=call_metadata())
        assert task.state == control_pb2.TASK_STATE_RUNNING
        assert task.attach_point
        await run_to_end(command)
        ended = await agent.control.StopTask(
            control_pb2.StopTaskRequest(task_id=task.task_id), metadata=call_metadata()
        )
    assert (ended.state, ended.end) == (control_pb2.TASK_STATE_STOPPED, control_pb2.TASK_END_REQUEST)
    rows = server.rows(task.task_id, "syscall")
    assert len(rows) == 100_003
    assert {(row["name"], row["pid"]) for row in rows} == {("getppid", command.pid)}
    account = server.account(task.task_id, "syscall")
    assert (account.emitted, list(account.lost)) == (100_003, [])
    probe = probe_named("syscalls")
    batches = [batch for batch in server.batches.values() if batch.event_count]
    assert {batch.schema_fingerprint for batch in batches} == {fingerprint(probe.schema(probe.streams[0]))}
    assert all(batch.ByteSize() < 1 << 20 for batch in batches)
    assert sorted(sequence for _, sequence in server.batches) == list(range(1, len(server.batches) + 1))
    assert server.tokens == {call_metadata()[0][1]}
    assert server.hellos[0].node.hostname == socket.gethostname()
    assert server.hellos[0].control_address == agent.address


async def test_a_server_that_goes_and_comes_back_misses_nothing(start_agent: StartAgent, server: StandInServer) -> None:
    """What was recorded while the server was gone, or sent and not acknowledged, is sent when it is back."""
    command = HeldCommand(["/usr/bin/python3", "-c", SPIN.format(50_021)])
    async with start_agent() as agent:
        task = await agent.control.StartTask(request(pid=command.pid, names="getppid"), metadata=call_metadata())
        server.verdict = None
        await run_to_end(command)
        await until(lambda: server.deliveries > 1)
        await server.stop()
        await asyncio.sleep(0.5)
        server.verdict = ingest_pb2.VERDICT_STORED
        await server.start()
        await agent.control.StopTask(control_pb2.StopTaskRequest(task_id=task.task_id), metadata=call_metadata())
    assert len(server.rows(task.task_id, "syscall")) == 50_021
    assert server.account(task.task_id, "syscall").emitted == 50_021


async def test_batches_to_be_repeated_are_repeated(start_agent: StartAgent, server: StandInServer) -> None:
    """A batch that the server cannot take for the time being is sent again."""
    command = HeldCommand(["/usr/bin/python3", "-c", SPIN.format(10_007)])
    async with start_agent() as agent:
        task = await agent.control.StartTask(request(pid=command.pid, names="getppid"), metadata=call_metadata())
        server.verdict = ingest_pb2.VERDICT_RETRY
        await run_to_end(command)
        await until(lambda: server.deliveries > 3)
        server.verdict = ingest_pb2.VERDICT_STORED
    assert len(server.rows(task.task_id, "syscall")) == 10_007


async def test_a_full_queue_drops_the_oldest_and_counts_it(start_agent: StartAgent, server: StandInServer) -> None:
    """With the server gone and the queue full, what is dropped is booked: emitted = received + lost."""
    await server.stop()
    command = HeldCommand(["/usr/bin/python3", "-c", SPIN.format(500_009)])
    async with start_agent(queue_bytes=1 << 20) as agent:
        task = await agent.control.StartTask(request(pid=command.pid, names="getppid"), metadata=call_metadata())
        await run_to_end(command)
        await asyncio.sleep(0.6)
        await server.start()
        await agent.control.StopTask(control_pb2.StopTaskRequest(task_id=task.task_id), metadata=call_metadata())
    account = server.account(task.task_id, "syscall")
    lost = {(loss.place, loss.reason): loss.count for loss in account.lost}
    assert set(lost) == {("queue", "full")}
    assert account.emitted == 500_009
    assert len(server.rows(task.task_id, "syscall")) == 500_009 - lost["queue", "full"]


async def test_a_lease_ends_by_itself(start_agent: StartAgent) -> None:
    """A task with a duration stops when it is over."""
    wanted = request("process")
    wanted.duration.FromMilliseconds(300)
    async with start_agent() as agent:
        task = await agent.control.StartTask(wanted, metadata=call_metadata())
        states = []
        async for change in agent.control.WatchTasks(control_pb2.WatchTasksRequest(), metadata=call_metadata()):
            states.append(change.state)
            if change.state == control_pb2.TASK_STATE_STOPPED:
                assert change.end == control_pb2.TASK_END_LEASE
                break
        assert states[0] == control_pb2.TASK_STATE_RUNNING
        listed = await agent.control.ListTasks(control_pb2.ListTasksRequest(), metadata=call_metadata())
    assert [(entry.task_id, entry.state) for entry in listed.tasks] == [(task.task_id, control_pb2.TASK_STATE_STOPPED)]


async def test_starting_the_same_task_again_changes_nothing(start_agent: StartAgent) -> None:
    """A task's id with its definition gives that task; with another definition, a refusal."""
    wanted = request("process", task_id="6f1c0d7e-0000-4000-8000-000000000001")
    async with start_agent() as agent:
        first = await agent.control.StartTask(wanted, metadata=call_metadata())
        again = await agent.control.StartTask(wanted, metadata=call_metadata())
        assert (again.task_id, again.started) == (first.task_id, first.started)
        wanted.probe = "sched"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await agent.control.StartTask(wanted, metadata=call_metadata())
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS


async def test_an_id_is_used_once_for_good(start_agent: StartAgent) -> None:
    """A restarted agent refuses an id from before: the server would take its batches for those it has."""
    wanted = request("process", task_id="6F1C0D7E-0000-4000-8000-000000000002")
    async with start_agent() as agent:
        assert (await agent.control.StartTask(wanted, metadata=call_metadata())).task_id == wanted.task_id.lower()
    async with start_agent() as agent:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await agent.control.StartTask(wanted, metadata=call_metadata())
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
        assert "choose another id" in (refused.value.details() or "")
        listed = await agent.control.ListTasks(control_pb2.ListTasksRequest(), metadata=call_metadata())
    assert not listed.tasks


@pytest.mark.parametrize(
    ("wanted", "code", "said"),
    [
        (request(""), "INVALID_ARGUMENT", "probe: name one"),
        (request("nonsense"), "INVALID_ARGUMENT", "no probe named 'nonsense'"),
        (request(pid=4194303), "FAILED_PRECONDITION", "no process has pid 4194303"),
        (request(pid=-1), "INVALID_ARGUMENT", "target.pid: -1 is no process"),
        (request(mode="both"), "INVALID_ARGUMENT", "'both' is not one of events, summary"),
        (request(ring_bytes=1.5), "INVALID_ARGUMENT", "1.5 is not a whole number"),
        (request(nonsense=1), "INVALID_ARGUMENT", "no option named 'nonsense'"),
        (request(task_id="mine"), "INVALID_ARGUMENT", "task_id: 'mine' is no UUID"),
    ],
    ids=["no-probe", "unknown-probe", "absent-pid", "negative-pid", "choice", "fraction", "unknown-option", "task-id"],
)
async def test_what_cannot_run_is_refused(
    start_agent: StartAgent, wanted: control_pb2.StartTaskRequest, code: str, said: str
) -> None:
    """A bad definition gets a status and a reason, and leaves no task."""
    async with start_agent() as agent:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await agent.control.StartTask(wanted, metadata=call_metadata())
        assert refused.value.code().name == code
        assert said in (refused.value.details() or "")
        listed = await agent.control.ListTasks(control_pb2.ListTasksRequest(), metadata=call_metadata())
    assert not listed.tasks


async def test_an_unknown_task_is_not_found(start_agent: StartAgent) -> None:
    """Stopping what is not there says so."""
    async with start_agent() as agent:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await agent.control.StopTask(control_pb2.StopTaskRequest(task_id="none"), metadata=call_metadata())
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_without_the_token_nobody_is_served(start_agent: StartAgent) -> None:
    """Calls without the token, or with another, are refused, streams too."""
    async with start_agent() as agent:
        for metadata in ((), (("authorization", "Bearer guess"),)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await agent.control.ListTasks(control_pb2.ListTasksRequest(), metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(aiter(agent.control.WatchTasks(control_pb2.WatchTasksRequest(), metadata=metadata)))
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_probes_are_listed_with_where_they_attach(start_agent: StartAgent) -> None:
    """The catalogue over the wire: streams with columns, options with bounds, availability."""
    async with start_agent() as agent:
        listed = await agent.control.ListProbes(control_pb2.ListProbesRequest(), metadata=call_metadata())
    assert [probe.name for probe in listed.probes] == list(probes())
    syscalls = next(probe for probe in listed.probes if probe.name == "syscalls")
    assert syscalls.available and syscalls.attach_point
    assert {stream.name: stream.mode for stream in syscalls.streams} == {
        "syscall": "events",
        "syscall_summary": "summary",
    }
    assert {column.name: column.unit for column in syscalls.streams[0].columns}["duration_ns"] == "ns"


async def test_a_stopped_agent_leaves_nothing_in_the_kernel(start_agent: StartAgent) -> None:
    """Stopping the agent stops its tasks, detaches every program and frees every map."""
    before = _programs_and_maps()
    async with start_agent() as agent:
        for name in (name for name, probe in probes().items() if not probe.sampler):
            await agent.control.StartTask(request(name), metadata=call_metadata())
        assert _programs_and_maps() - before
    await until(lambda: not _programs_and_maps() - before)


def _programs_and_maps() -> set[tuple[str, int]]:
    listed = {kind: subprocess.check_output(["bpftool", "-j", kind], text=True) for kind in ("prog", "map")}
    return {(kind, item["id"]) for kind, text in listed.items() for item in json.loads(text)}


async def test_metrics_have_every_counter_and_no_open_label(start_agent: StartAgent) -> None:
    """/metrics has events by probe and stream; no label is a pid or a name of a process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = HeldCommand(["/usr/bin/python3", "-c", SPIN.format(1009)])
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        await agent.control.StartTask(request(pid=command.pid, names="getppid"), metadata=call_metadata())
        await run_to_end(command)
        await asyncio.sleep(0.6)
        text = await asyncio.to_thread(
            lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        )
    assert 'scope_events_total{probe="syscalls",stream="syscall"} 1009.0' in text
    assert 'scope_tasks{state="running"} 1.0' in text
    assert str(command.pid) not in text


async def test_ports_that_are_taken_are_named(start_agent: StartAgent) -> None:
    """A taken port is an error that names the address and the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for name in ("control", "metrics"):
            with pytest.raises(PortTaken, match=f"cannot listen on {address}.*--{name}"):
                async with start_agent(**{name: address}):
                    pass


@pytest.mark.parametrize("address", ["0.0.0.0:1", "127.0.0.1", "127.0.0.1:99999", "nonsense:1", "[::]:1"])
def test_only_loopback_is_listened_on(address: str, tmp_path: Any) -> None:
    """Until there is mutual TLS, an address that others could reach is refused."""
    with pytest.raises(InvalidSettings, match="control: "):
        Settings(state_dir=tmp_path, token_file=tmp_path / "token", control=address)


async def test_the_agent_does_not_record_itself(start_agent: StartAgent, server: StandInServer) -> None:
    """A task for the whole machine has no rows of the agent's own process."""
    async with start_agent() as agent:
        task = await agent.control.StartTask(request(), metadata=call_metadata())
        await asyncio.sleep(0.5)
        await agent.control.StopTask(control_pb2.StopTaskRequest(task_id=task.task_id), metadata=call_metadata())
    rows = server.rows(task.task_id, "syscall")
    assert os.getpid() not in {row["pid"] for row in rows}
