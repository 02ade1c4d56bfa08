"""Tasks: what is recorded on which machine."""

from typing import Annotated, Any, Literal
from uuid import UUID

from google.protobuf import json_format
from pydantic import Field

from scope_catalogue.catalogue import probe_named, probes
from scope_catalogue.errors import CatalogueError, InvalidTarget
from scope_catalogue.options import parse_options
from scope_catalogue.target import check_target
from scope_proto.scope.v1.task_pb2 import Definition
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, DESIRED, SESSIONS
from scope_server.api.resources.machines import NODE_FIELD, find_machine
from scope_server.api.resources.task_view import Task, shown
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import PID, Answer, Body, NodeName, Option, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import AgentUnavailable, Fault, InvalidQuery, UnknownThing

ROUTES = Routes()

MOST_TASKS = 1000
LONGEST_S = 10 * 366 * 86400.0


class TasksQuery(Parameters):
    """Which tasks."""

    state: (
        Annotated[
            Literal["pending", "starting", "running", "stopping", "stopped", "failed", "active"],
            Field(description="active: all tasks that are wanted or have not ended"),
        ]
        | None
    ) = None


class TaskPath(Parameters):
    """Which task."""

    task_id: UUID


class Target(Body):
    """The processes that a task watches. All fields that are given must match; none: the whole machine."""

    pid: Annotated[int, Field(le=PID, description="a process, and the children that it starts")] | None = None
    comm: Annotated[str, Field(max_length=15, description="threads with this name")] | None = None
    exe: Annotated[str, Field(max_length=4095, description="processes that run this file")] | None = None
    cgroup: Annotated[str, Field(max_length=4095, description="a cgroup and those below it")] | None = None
    container: Annotated[str, Field(max_length=255, description="a container's id")] | None = None


class TaskWish(Body):
    """The definition of a task."""

    probe: str = Field(examples=["syscalls"], description="its name, as /api/v1/probes lists it")
    node: NodeName | None = Field(None, description="a machine: its hostname or id; none: the only one")
    target: Target | None = None
    options: dict[str, Option] | None = Field(None, description="values by name, as /api/v1/probes lists them")
    duration: Annotated[float, Field(gt=0, le=LONGEST_S)] | None = Field(
        None, description="seconds from the task's first start; without it, until the task is stopped"
    )


class Tasks(Answer):
    """Tasks, the newest first."""

    tasks: list[Task]


@ROUTES.get(f"{PREFIX}/tasks", Role.VIEWER)
async def get_tasks(call: Call, query: TasksQuery) -> Tasks:
    """Tasks with their event counts, the newest first."""
    return Tasks(tasks=await _tasks(call, state=query.state))


@ROUTES.get(f"{PREFIX}/tasks/{{task_id}}", Role.VIEWER)
async def get_task(call: Call, path: TaskPath) -> Task:
    """A task."""
    return await _task(call, str(path.task_id))


@ROUTES.post(f"{PREFIX}/tasks", Role.OPERATOR, audited="task.start", status=201)
async def start_task(call: Call, body: TaskWish) -> Task:
    """Start a task. Answers when it records, or at once if its machine is not connected."""
    definition = _definition(body, newer=await _of_newer_agent(call, body))
    machine, machine_id = await find_machine(call, body.node, NODE_FIELD)
    return await _task(call, await call[DESIRED].start(machine, machine_id, definition))


@ROUTES.post(f"{PREFIX}/tasks/{{task_id}}/stop", Role.OPERATOR, audited="task.stop")
async def stop_task(call: Call, path: TaskPath) -> Task:
    """Stop a task. Answers when it has ended; recorded rows are kept."""
    task = await _task(call, str(path.task_id))
    await call[DESIRED].stop(task.task_id)
    return await _task(call, task.task_id)


async def _of_newer_agent(call: Call, wish: TaskWish) -> bool:
    """Whether this server does not know a probe, but the machine's agent has told that it has it."""
    if wish.probe in probes():
        return False
    try:
        _, machine_id = await find_machine(call, wish.node)
    except (InvalidQuery, UnknownThing, AgentUnavailable):
        return False
    session = call[SESSIONS].get(machine_id)
    told = session.probes() if session else None
    return any(one.name == wish.probe for one in told.probes) if told else False


def _definition(wish: TaskWish, *, newer: bool) -> Definition:
    """The definition of a task. With `newer`, only the agent can check the probe's options."""
    definition = Definition(probe=wish.probe)
    options = _options(wish, newer=newer)
    try:
        json_format.ParseDict(options, definition.options)
    except json_format.ParseError as error:
        raise InvalidQuery(str(error), pointer="/options") from None
    target = wish.target.model_dump(exclude_none=True) if wish.target else {}
    try:
        check_target(target)
    except InvalidTarget as error:
        raise InvalidQuery(str(error), pointer="/target") from None
    for name, value in target.items():
        setattr(definition.target, name, value)
    if wish.duration is not None:
        definition.duration.FromNanoseconds(int(wish.duration * 1e9))
    return definition


def _options(wish: TaskWish, *, newer: bool) -> dict[str, Any]:
    given = wish.options or {}
    if newer:
        return given
    try:
        declared = probe_named(wish.probe).options
    except CatalogueError as error:
        raise InvalidQuery(str(error), pointer="/probe") from None
    try:
        checked = parse_options(declared, given)
    except CatalogueError as error:
        raise InvalidQuery(str(error), pointer="/options") from None
    values = {name: checked[name] for name in given}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


async def _task(call: Call, task_id: str) -> Task:
    found = await _tasks(call, task_id=task_id)
    if not found:
        detail = f"there is no task '{task_id}'; /api/v1/tasks lists them"
        raise UnknownThing(detail, faults=[Fault(detail, parameter="task_id")])
    return found[0]


async def _tasks(call: Call, task_id: str | None = None, state: str | None = None) -> list[Task]:
    rows = await call[DATABASE].fetch("tasks", {"task_id": task_id, "state": state, "most": MOST_TASKS})
    connected = {session.machine.machine_id for session in call[SESSIONS].all()}
    return await shown(call[DATABASE], rows, connected)
