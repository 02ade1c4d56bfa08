"""Tasks: what is recorded on which machine."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from scope_catalogue.catalogue import probes
from scope_server.accounts.caller import Role
from scope_server.api.context import DESIRED, FLEET
from scope_server.api.resources.definition import Part, Watched, definition_of
from scope_server.api.resources.machines import NODE_FIELD, find_machine, probes_told
from scope_server.api.resources.task_view import Task, tasks_where
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, NodeName, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import AgentUnavailable, Fault, InvalidQuery, UnknownThing

ROUTES = Routes()


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


class TaskWish(Part, Watched):
    """The definition of a task."""

    node: NodeName | None = Field(None, description="a machine: its hostname or id; none: the only one")


class Tasks(Answer):
    """Tasks, the newest first."""

    tasks: list[Task]


@ROUTES.get(f"{PREFIX}/tasks", Role.VIEWER)
async def get_tasks(call: Call, query: TasksQuery) -> Tasks:
    """Tasks with their event counts, the newest first."""
    return Tasks(tasks=await tasks_where(call, state=query.state))


@ROUTES.get(f"{PREFIX}/tasks/{{task_id}}", Role.VIEWER)
async def get_task(call: Call, path: TaskPath) -> Task:
    """A task."""
    return await _task(call, str(path.task_id))


@ROUTES.post(f"{PREFIX}/tasks", Role.OPERATOR, audited="task.start", status=201)
async def start_task(call: Call, body: TaskWish) -> Task:
    """Start a task. Answers when it records, or at once if its machine is not connected."""
    definition = definition_of(body, body, newer=await _of_newer_agent(call, body))
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
    if await call[FLEET].directory.holder(machine_id) is None:
        return False
    told = await probes_told(call, machine_id, connected=True)
    return told.current and told.probes is not None and any(one.name == wish.probe for one in told.probes.probes)


async def _task(call: Call, task_id: str) -> Task:
    found = await tasks_where(call, task_id=task_id)
    if not found:
        detail = f"there is no task '{task_id}'; /api/v1/tasks lists them"
        raise UnknownThing(detail, faults=[Fault(detail, parameter="task_id")])
    return found[0]
