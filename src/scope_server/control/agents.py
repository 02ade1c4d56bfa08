"""The agents that are connected, and the tasks wanted of them: desired state, put right when an agent comes."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from psycopg.types.json import Jsonb

from scope_proto.scope.v1 import control_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub
from scope_server.errors import AgentRefused, AgentUnavailable, StoreUnavailable
from scope_server.store.database import Database
from scope_server.token import Token

log = logging.getLogger(__name__)

CALL_S = 15.0  # loading a probe takes a fraction of it
AGAIN_S = 2.0
_ENDED = (control_pb2.TASK_STATE_STOPPED, control_pb2.TASK_STATE_FAILED)
_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
)


@dataclass(eq=False)
class Agent:
    """A connected agent: its machine's key, and a stub of its control service.

    `lock` is its machine's: desired state is changed, or put right, by one at a time.
    """

    machine: int
    machine_id: str
    control: Any
    lock: asyncio.Lock


class Agents:
    """The connected agents by machine id."""

    def __init__(self, database: Database, token: Token) -> None:
        self._database = database
        self._metadata = (("authorization", f"Bearer {token.text}"),)
        self._agents: dict[str, Agent] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def machine_ids(self) -> set[str]:
        """The machines that are connected."""
        return set(self._agents)

    async def register(self, node: control_pb2.Node) -> int:
        """Enters a machine, or what has changed of it; returns its key.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        names = ("machine_id", "hostname", "kernel", "architecture", "cpus", "memory_bytes", "agent_version")
        values = {name: getattr(node, name) for name in names}
        (row,) = await self._database.fetch("register_machine", {**values, "booted": _time(node, "booted")})
        return int(row["id"])

    @asynccontextmanager
    async def connected(self, machine: int, machine_id: str, address: str) -> AsyncIterator[None]:
        """While inside, the agent can be asked, its tasks are put right, and what becomes of them is followed."""
        async with grpc.aio.insecure_channel(address) as channel:
            lock = self._locks.setdefault(machine_id, asyncio.Lock())
            agent = Agent(machine, machine_id, AgentControlStub(channel), lock)
            self._agents[machine_id] = agent
            following = asyncio.create_task(self._follow(agent))
            log.info("agent connected", extra={"machine": machine_id, "control": address})
            try:
                yield
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                if self._agents.get(machine_id) is agent:
                    del self._agents[machine_id]
                log.info("agent disconnected", extra={"machine": machine_id})

    def of(self, machine_id: str) -> Agent:
        """The agent of a machine.

        Raises:
            AgentUnavailable: it is not connected.
        """
        if machine_id not in self._agents:
            raise AgentUnavailable(f"the agent of {machine_id} is not connected; is `scope agentd` running there?")
        return self._agents[machine_id]

    async def start(self, agent: Agent, request: control_pb2.StartTaskRequest) -> str:
        """Has an agent start a task, which is wanted from then on; returns its id.

        Raises:
            AgentRefused: the agent will not; the task is kept as failed, with the reason.
            AgentUnavailable: it did not answer; likewise.
        """
        async with agent.lock:
            await self._enter(agent, request, None)
            try:
                await self._ask_to_start(agent, request)
            except AgentUnavailable as error:
                await self._database.run("end_task", _failed(request.task_id, str(error)))
                raise
        return request.task_id

    async def _enter(self, agent: Agent, request: control_pb2.StartTaskRequest, replaces: str | None) -> None:
        request.task_id = str(uuid.uuid4())
        definition = json_format.MessageToDict(request, preserving_proto_field_name=True)
        await self._create(agent, request.task_id, request.probe, definition, replaces)

    async def _ask_to_start(self, agent: Agent, request: control_pb2.StartTaskRequest) -> None:
        try:
            task = await self._call(agent.control.StartTask, request)
        except AgentRefused as error:
            await self._database.run("end_task", _failed(request.task_id, str(error)))
            raise
        await self._update(agent, task)

    async def stop(self, machine_id: str, task_id: str) -> None:
        """Has the agent of a machine stop a task.

        Raises:
            AgentRefused: it knows no such task.
            AgentUnavailable: it is not connected or did not answer; the task is not wanted any more and is stopped when
                it is.
        """
        await self._database.run("stop_task", {"task_id": task_id})
        agent = self.of(machine_id)
        async with agent.lock:
            await self._ask_to_stop(agent, task_id)

    async def _ask_to_stop(self, agent: Agent, task_id: str) -> None:
        task = await self._call(agent.control.StopTask, control_pb2.StopTaskRequest(task_id=task_id))
        await self._update(agent, task)

    async def probes(self, agent: Agent) -> control_pb2.ListProbesResponse:
        """What an agent's host allows."""
        answer: control_pb2.ListProbesResponse = await self._call(
            agent.control.ListProbes, control_pb2.ListProbesRequest()
        )
        return answer

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, metadata=self._metadata, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            kind = AgentRefused if error.code() in _REFUSALS else AgentUnavailable
            raise kind(error.details() or str(error.code())) from None

    async def _follow(self, agent: Agent) -> None:
        while True:
            try:
                await self._reconcile(agent)
                watched = agent.control.WatchTasks(control_pb2.WatchTasksRequest(), metadata=self._metadata)
                async for task in watched:
                    await self._update(agent, task)
            except (grpc.aio.AioRpcError, AgentUnavailable, AgentRefused, StoreUnavailable) as error:
                log.warning("cannot follow an agent", extra={"machine": agent.machine_id, "reason": str(error)})
            await asyncio.sleep(AGAIN_S)

    async def _reconcile(self, agent: Agent) -> None:
        """Starts what is wanted and not there; stops what runs and is not wanted."""
        async with agent.lock:
            listed = await self._call(agent.control.ListTasks, control_pb2.ListTasksRequest())
            there = {task.task_id: task for task in listed.tasks}
            for row in await self._database.fetch("desired_tasks", {"machine": agent.machine}):
                if row["task_id"] not in there:
                    await self._start_again(agent, row)
            unwanted = await self._database.fetch("unwanted_tasks", {"task_ids": list(there)})
            for row in unwanted:
                if there[row["task_id"]].state not in _ENDED:
                    await self._ask_to_stop(agent, row["task_id"])

    async def _start_again(self, agent: Agent, row: Mapping[str, Any]) -> None:
        request = json_format.ParseDict(row["definition"], control_pb2.StartTaskRequest())
        request.task_id = row["task_id"]
        if row["state"] != "pending":  # sequences and books belong to a run, so the task goes on as another
            if request.HasField("duration") and not _shorten(request.duration, row["started"]):
                await self._database.run("end_task", {"task_id": row["task_id"], "state": "stopped", "error": None})
                return
            await self._database.run("end_task", _failed(row["task_id"], "the agent restarted"))
            await self._enter(agent, request, replaces=row["task_id"])
        try:
            await self._ask_to_start(agent, request)
        except AgentRefused as error:
            log.warning("a task cannot go on", extra={"task": row["task_id"], "reason": str(error)})

    async def _update(self, agent: Agent, task: control_pb2.Task) -> None:
        state = control_pb2.TaskState.Name(task.state).removeprefix("TASK_STATE_").lower()
        row = {
            "task_id": task.task_id,
            "machine": agent.machine,
            "state": state,
            "over": task.state in _ENDED and task.end != control_pb2.TASK_END_SHUTDOWN,
            "error": task.error or None,
            "attach_point": task.attach_point or None,
            "sent_bytes": task.sent_bytes,
            "cost": Jsonb(json_format.MessageToDict(task.cost, preserving_proto_field_name=True)),
            "started": _time(task, "started"),
            "ended": _time(task, "ended"),
        }
        if not await self._database.fetch("update_task", row):
            names = ("probe", "target", "options", "duration")
            described = json_format.MessageToDict(task, preserving_proto_field_name=True)
            definition = {name: described[name] for name in names if name in described}
            await self._create(agent, task.task_id, task.probe, definition, None)
            await self._database.fetch("update_task", row)

    async def _create(
        self, agent: Agent, task_id: str, probe: str, definition: dict[str, Any], replaces: str | None
    ) -> None:
        row = {"task_id": task_id, "machine": agent.machine, "probe": probe, "replaces": replaces}
        await self._database.run("create_task", {**row, "definition": Jsonb(definition)})


def _shorten(duration: Duration, started: datetime) -> bool:
    """Takes what has passed since a task started off its duration; False if nothing is left."""
    left = duration.ToTimedelta() - (datetime.now(UTC) - started)
    duration.FromTimedelta(left)
    return left.total_seconds() > 0


def _failed(task_id: str, error: str) -> dict[str, str]:
    return {"task_id": task_id, "state": "failed", "error": error}


def _time(message: Any, name: str) -> Any:
    if not message.HasField(name):
        return None
    moment: Timestamp = getattr(message, name)
    return moment.ToDatetime(UTC)
