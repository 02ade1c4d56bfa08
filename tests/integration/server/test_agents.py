"""Desired state: what was asked for is what runs, however agents and servers come and go."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import psycopg
import pytest
from tests.integration.server.conftest import MACHINE, Server

from scope_cli.errors import CommandError
from scope_proto.scope.v1 import control_pb2, ingest_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlServicer, add_AgentControlServicer_to_server
from scope_proto.scope.v1.ingest_pb2_grpc import IngestStub

StartServer = Callable[..., Any]
RUNNING, STOPPED = control_pb2.TASK_STATE_RUNNING, control_pb2.TASK_STATE_STOPPED


class StandInAgent(AgentControlServicer):
    """Stands in for scope_agentd: keeps tasks and records nothing."""

    def __init__(self) -> None:
        self.tasks: dict[str, control_pb2.Task] = {}
        self.asked: list[tuple[str, str]] = []  # (method, task id)
        self.delay_s = 0.0

    async def StartTask(self, request: control_pb2.StartTaskRequest, context: Any) -> control_pb2.Task:
        await asyncio.sleep(self.delay_s)
        self.asked.append(("start", request.task_id))
        task = control_pb2.Task(task_id=request.task_id, probe=request.probe, state=RUNNING)
        if request.HasField("duration"):
            task.duration.CopyFrom(request.duration)
        task.started.GetCurrentTime()
        self.tasks[request.task_id] = task
        return task

    async def StopTask(self, request: control_pb2.StopTaskRequest, context: Any) -> control_pb2.Task:
        self.asked.append(("stop", request.task_id))
        return self.end(request.task_id, control_pb2.TASK_END_REQUEST)

    def end(self, task_id: str, why: control_pb2.TaskEnd) -> control_pb2.Task:
        """Has a task end."""
        self.tasks[task_id].state, self.tasks[task_id].end = STOPPED, why
        return self.tasks[task_id]

    async def ListTasks(self, request: control_pb2.ListTasksRequest, context: Any) -> control_pb2.ListTasksResponse:
        return control_pb2.ListTasksResponse(tasks=self.tasks.values())

    async def WatchTasks(self, request: control_pb2.WatchTasksRequest, context: Any) -> AsyncIterator[control_pb2.Task]:
        told: dict[str, bytes] = {}
        while True:
            for task in list(self.tasks.values()):
                if told.get(task.task_id) != task.SerializeToString():
                    told[task.task_id] = task.SerializeToString()
                    yield task
            await asyncio.sleep(0.05)


@asynccontextmanager
async def connected(server: Server, agent: StandInAgent) -> AsyncIterator[None]:
    """While inside, the agent is there. A second one inside is the same machine's new connection."""
    control = grpc.aio.server()
    add_AgentControlServicer_to_server(agent, control)  # type: ignore[no-untyped-call]
    port = control.add_insecure_port("127.0.0.1:0")
    await control.start()
    node = control_pb2.Node(machine_id=MACHINE, hostname="stand-in", kernel="6.1", cpus=2)
    hello = ingest_pb2.UploadRequest(hello=ingest_pb2.Hello(node=node, control_address=f"127.0.0.1:{port}"))
    metadata = (("authorization", f"Bearer {server.token.read_text().strip()}"),)
    async with grpc.aio.insecure_channel(server.ingest) as channel:
        call: Any = IngestStub(channel).Upload(metadata=metadata)  # type: ignore[call-arg]
        await call.write(hello)
        await until(lambda: health(server), lambda found: found["agents"] == 1)
        await asyncio.sleep(0.1)
        try:
            yield
        finally:
            call.cancel()
            await control.stop(0)


async def health(server: Server) -> Any:
    return await server.get("health")


async def tasks(server: Server) -> dict[str, dict[str, Any]]:
    return {task["task_id"]: task for task in (await server.get("tasks"))["tasks"]}


async def until(ask: Callable[[], Any], true: Callable[[Any], bool]) -> Any:
    """Asks until the answer is as wanted."""
    for _ in range(200):
        found = await ask()
        if true(found):
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within 10 s: {found}")


async def start(server: Server, **more: Any) -> str:
    """Starts a task as a user does; its id."""
    return str(
        (await asyncio.to_thread(lambda: server.client.post("tasks", body={"probe": "syscalls", **more})))["task_id"]
    )


async def stop(server: Server, task_id: str) -> None:
    await asyncio.to_thread(lambda: server.client.post("tasks", task_id, "stop"))


async def test_a_task_goes_on_when_its_agent_was_restarted(start_server: StartServer) -> None:
    """Under another id, since sequences belong to a run; the first is kept, as ended."""
    async with start_server() as server:
        async with connected(server, StandInAgent()):
            first = await start(server)
        fresh = StandInAgent()
        async with connected(server, fresh):
            await until(lambda: tasks(server), lambda found: len(found) == 2)
            (second,) = fresh.tasks
            found = await until(lambda: tasks(server), lambda found: found[second]["state"] == "running")
    assert found[second]["replaces"] == first
    assert (found[first]["state"], found[first]["error"]) == ("failed", "the agent restarted")


async def test_only_a_request_or_a_lease_ends_what_is_wanted(start_server: StartServer) -> None:
    """A task that ended with its agent's shutdown goes on with the next one; one that a user or its lease ended not."""
    agent, fresh = StandInAgent(), StandInAgent()
    async with start_server() as server:
        async with connected(server, agent):
            ids = [await start(server) for _ in range(3)]
            ends = (control_pb2.TASK_END_REQUEST, control_pb2.TASK_END_LEASE, control_pb2.TASK_END_SHUTDOWN)
            for task_id, end in zip(ids, ends, strict=True):
                agent.end(task_id, end)
            await until(lambda: tasks(server), lambda found: {found[each]["state"] for each in ids} == {"stopped"})
        async with connected(server, fresh):
            found = await until(lambda: tasks(server), lambda found: len(found) == 4)
    (again,) = fresh.tasks
    assert found[again]["replaces"] == ids[2]


async def test_what_is_stopped_while_its_agent_is_gone_stays_stopped(start_server: StartServer) -> None:
    """The stop is told to fail, since nobody was there to stop it, and is made good when the agent is back."""
    agent = StandInAgent()
    async with start_server() as server:
        async with connected(server, agent):
            task_id = await start(server)
        await until(lambda: health(server), lambda found: found["agents"] == 0)
        with pytest.raises(CommandError, match="is not connected"):
            await stop(server, task_id)
        async with connected(server, agent):
            await until(lambda: tasks(server), lambda found: found[task_id]["state"] == "stopped")
    assert agent.asked == [("start", task_id), ("stop", task_id)]


async def test_a_task_that_was_never_asked_for_is(start_server: StartServer) -> None:
    """A server that ended between writing a task down and asking for it asks when it is back, by the same id."""
    agent, task_id = StandInAgent(), str(uuid.uuid4())
    async with start_server() as server:
        async with connected(server, agent):
            pass
        with psycopg.connect(server.conninfo) as connection:
            connection.execute(
                "INSERT INTO scope.tasks (task_id, machine, probe, definition, desired)"
                " SELECT %s, id, 'syscalls', '{\"probe\": \"syscalls\"}', 'running' FROM scope.machines",
                [task_id],
            )
        async with connected(server, agent):
            await until(lambda: tasks(server), lambda found: found[task_id]["state"] == "running")
    assert agent.asked == [("start", task_id)]


async def test_a_start_during_a_reconnect_is_asked_once(start_server: StartServer) -> None:
    """Starting and putting right do not both ask for the same task."""
    agent = StandInAgent()
    agent.delay_s = 0.5
    async with start_server() as server, connected(server, agent):
        starting = asyncio.create_task(start(server))
        await asyncio.sleep(0.2)
        async with connected(server, agent):
            task_id = await starting
            await asyncio.sleep(0.5)
    assert agent.asked == [("start", task_id)]


async def test_a_lease_is_not_begun_anew(start_server: StartServer) -> None:
    """What a task has run is taken off its duration; with nothing left it has ended."""
    fresh = StandInAgent()
    async with start_server() as server:
        async with connected(server, StandInAgent()):
            short, long = await start(server, duration=0.3), await start(server, duration=100)
        await asyncio.sleep(0.5)
        async with connected(server, fresh):
            found = await until(lambda: tasks(server), lambda found: len(found) == 3)
    (again,) = fresh.tasks.values()
    assert found[again.task_id]["replaces"] == long
    assert 90 < again.duration.ToTimedelta().total_seconds() < 99.6
    assert found[short]["state"] == "stopped"
