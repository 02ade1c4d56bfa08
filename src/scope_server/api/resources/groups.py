"""Groups: tasks that are started together, of several probes, on several machines."""

import asyncio
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import Field, model_validator

from scope_proto.scope.v1.task_pb2 import Definition
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, DESIRED
from scope_server.api.resources.definition import Part, Watched, definition_of
from scope_server.api.resources.machines import find_machine
from scope_server.api.resources.members import Labels
from scope_server.api.resources.task_view import Task, tasks_where
from scope_server.api.resources.templates import Parts, template_named
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, NodeName, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import AgentRefused, Fault, InvalidQuery, UnknownThing
from scope_server.session.desired import ANSWER_S, Wish

ROUTES = Routes()

MOST_TASKS = 1000  # of a group
_AT_ONCE = 16  # waits for agents; each asks the database now and then


Selector = Annotated[Labels, Field(min_length=1)]


class GroupWish(Watched):
    """Which probes, where: a template or parts; machines by name or by labels."""

    template: str | None = Field(None, description="as /api/v1/templates lists it")
    parts: Parts | None = None
    nodes: Annotated[list[NodeName], Field(min_length=1, max_length=MOST_TASKS)] | None = None
    selector: Selector | None = Field(None, description="all joined machines that now have these labels")

    @model_validator(mode="after")
    def _one_of_each(self) -> "GroupWish":
        if (self.template is None) == (self.parts is None):
            raise ValueError("give either template or parts")
        if self.nodes is not None and self.selector is not None:
            raise ValueError("give either nodes or selector; without both, it is the only machine")
        return self


class Refused(Answer):
    """A task that was not started."""

    node: str = Field(description="the machine's id")
    hostname: str
    probe: str
    reason: str


class TaskGroup(Answer):
    """Tasks that were started together."""

    group_id: str
    tasks: list[Task]


class StartedGroup(TaskGroup):
    """Which tasks were started, and which were refused."""

    refused: list[Refused]


class GroupPath(Parameters):
    """Which group."""

    group_id: UUID


class _Machine(NamedTuple):
    key: int
    machine_id: str
    hostname: str


@ROUTES.post(f"{PREFIX}/groups", Role.OPERATOR, audited="group.start", status=201)
async def start_group(call: Call, body: GroupWish) -> StartedGroup:
    """Start tasks of several probes on several machines. If one definition is not valid, none is started.

    What an agent refuses is told; the others run.
    """
    parts = body.parts or [
        Part(probe=part.probe, options=dict(part.options), where=part.where)
        for part in (await template_named(call, body.template or "", pointer="/template")).parts
    ]
    definitions = [definition_of(part, body, at=f"/parts/{number}") for number, part in enumerate(parts)]
    machines = await _machines(call, body)
    wishes = [(machine, one) for machine in machines for one in definitions]
    if len(wishes) > MOST_TASKS:
        raise InvalidQuery(f"{len(machines)} machines, each with {len(definitions)} probes: at most {MOST_TASKS} tasks")
    group, refused = str(uuid.uuid4()), {}
    ids = await call[DESIRED].want([Wish(machine.key, one) for machine, one in wishes], group)

    async def begun(task_id: str, machine: _Machine, definition: Definition) -> None:
        try:
            await call[DESIRED].begun(machine.machine_id, task_id)
        except AgentRefused as error:
            refused[task_id] = Refused(
                node=machine.machine_id, hostname=machine.hostname, probe=definition.probe, reason=str(error)
            )

    await _in_time(begun(task_id, *wish) for task_id, wish in zip(ids, wishes, strict=True))
    tasks = [task for task in await tasks_where(call, group=group) if task.task_id not in refused]
    return StartedGroup(group_id=group, tasks=tasks, refused=list(refused.values()))


@ROUTES.get(f"{PREFIX}/groups/{{group_id}}", Role.VIEWER)
async def get_group(call: Call, path: GroupPath) -> TaskGroup:
    """The tasks of a group."""
    return TaskGroup(group_id=str(path.group_id), tasks=await _tasks(call, path))


@ROUTES.post(f"{PREFIX}/groups/{{group_id}}/stop", Role.OPERATOR, audited="group.stop")
async def stop_group(call: Call, path: GroupPath) -> TaskGroup:
    """Stop all tasks of a group. Answers when they have ended; recorded rows are kept."""
    tasks = await _tasks(call, path)
    await call[DESIRED].unwant(str(path.group_id))
    await _in_time(call[DESIRED].stop(task.task_id) for task in tasks)
    return TaskGroup(group_id=str(path.group_id), tasks=await _tasks(call, path))


async def _in_time(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Waits for agents; the answer shows the state of tasks that are not ready in time."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def placed(one: Coroutine[None, None, None]) -> None:
        async with places:
            await one

    with suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            await asyncio.gather(*map(placed, work))


async def _tasks(call: Call, path: GroupPath) -> list[Task]:
    found = await tasks_where(call, group=str(path.group_id))
    if not found:
        raise UnknownThing(f"there is no group '{path.group_id}'", parameter="group_id")
    return found


async def _machines(call: Call, wish: GroupWish) -> Sequence[_Machine]:
    if wish.selector:
        labels: dict[str, Any] = {"names": list(wish.selector), "values": list(wish.selector.values())}
        found = [_Machine(*row.values()) for row in await call[DATABASE].fetch("labelled_machines", labels)]
        if not found:
            said = ", ".join(f"{name}={value}" for name, value in wish.selector.items())
            raise UnknownThing(f"no machine has the labels {said}; `scope nodes` lists them", pointer="/selector")
        return found
    machines = []
    for number, node in enumerate(wish.nodes or [""]):
        key, machine_id = await find_machine(call, node, Fault("", pointer=f"/nodes/{number}"))
        machines.append(_Machine(key, machine_id, node or machine_id))
    return list({machine.key: machine for machine in machines}.values())
