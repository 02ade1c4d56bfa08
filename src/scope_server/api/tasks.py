"""Tasks: GET and POST /tasks, GET /tasks/ID, POST /tasks/ID/stop."""

from typing import Any

from aiohttp import web
from google.protobuf import json_format

from scope_catalogue.catalogue import probe_named, probes
from scope_catalogue.errors import CatalogueError, InvalidTarget
from scope_catalogue.options import parse_options
from scope_catalogue.target import check_target
from scope_proto.scope.v1.task_pb2 import Definition
from scope_server.api.context import DATABASE, DESIRED, SESSIONS
from scope_server.api.input import PID, Parameters, fields, identity, number, only, quoted, text
from scope_server.api.nodes import find_machine
from scope_server.api.task_view import shown
from scope_server.errors import AgentUnavailable, InvalidQuery, UnknownThing

MOST_TASKS = 1000
STATES = ("pending", "starting", "running", "stopping", "stopped", "failed", "active")
LONGEST_S = 10 * 366 * 86400.0
_FIELDS = ("node", "probe", "target", "options", "duration")
_TARGET = {"comm": 15, "exe": 4095, "cgroup": 4095, "container": 255}  # maximum characters of each


async def get_tasks(request: web.Request) -> web.Response:
    """Tasks, newest first. `state` selects one state, or `active`: all tasks that are wanted or have not ended."""
    state = Parameters(request, ("state",)).choice("state", STATES)
    return web.json_response({"tasks": await _tasks(request, state=state)})


async def get_task(request: web.Request) -> web.Response:
    """One task."""
    Parameters(request, ())
    return web.json_response(await _task(request, identity(request, "task_id")))


async def start_task(request: web.Request) -> web.Response:
    """Creates a task. Answers when it records, or at once if its machine is not connected."""
    Parameters(request, ())
    body = await fields(request, _FIELDS)
    node = None if body.get("node") is None else text(body["node"], "node")
    definition = _definition(body, newer=await _of_newer_agent(request, node, body.get("probe")))
    machine, machine_id = await find_machine(request, node)
    task_id = await request.app[DESIRED].start(machine, machine_id, definition)
    return web.json_response(await _task(request, task_id), status=201)


async def stop_task(request: web.Request) -> web.Response:
    """Stops a task. Answers when it has ended; recorded rows are kept."""
    Parameters(request, ())
    await fields(request, ())
    task = await _task(request, identity(request, "task_id"))
    await request.app[DESIRED].stop(task["task_id"])
    return web.json_response(await _task(request, task["task_id"]))


async def _of_newer_agent(request: web.Request, node: str | None, probe: object) -> bool:
    """Whether this server does not know a probe, but the machine's agent has told that it has it."""
    if not isinstance(probe, str) or probe in probes():
        return False
    try:
        _, machine_id = await find_machine(request, node)
    except (InvalidQuery, UnknownThing, AgentUnavailable):
        return False
    session = request.app[SESSIONS].get(machine_id)
    told = session.probes() if session else None
    return any(one.name == probe for one in told.probes) if told else False


def _definition(body: dict[str, Any], *, newer: bool) -> Definition:
    """The definition of a task. With `newer`, only the agent can check the probe's options."""
    name = text(body.get("probe", ""), "probe")
    options = body.get("options") or {}
    if not isinstance(options, dict):
        raise InvalidQuery("options: must be an object")
    try:
        checked = options if newer else parse_options(probe_named(name).options, options)
        given = {option: checked[option] for option in options}
        definition = Definition(probe=name)
        json_format.ParseDict(
            {option: list(value) if isinstance(value, tuple) else value for option, value in given.items()},
            definition.options,
        )
    except (CatalogueError, json_format.ParseError) as error:
        raise InvalidQuery(str(error)) from None
    _aim(definition, only(body.get("target"), "target", ("pid", *_TARGET)))
    if body.get("duration") is not None:
        definition.duration.FromNanoseconds(int(number(body["duration"], "duration", 0, LONGEST_S) * 1e9))
    return definition


def _aim(definition: Definition, target: dict[str, Any]) -> None:
    given = {name: value for name, value in target.items() if value is not None}
    pid = given.get("pid", 1)
    if isinstance(pid, bool) or not isinstance(pid, int) or pid > PID:
        raise InvalidQuery(f"target.pid: {quoted(pid)} is no process")
    for name, value in given.items():
        if name in _TARGET:
            text(value, f"target.{name}", _TARGET[name])
    try:
        check_target(given)
    except InvalidTarget as error:
        raise InvalidQuery(str(error)) from None
    for name, value in given.items():
        setattr(definition.target, name, value)


async def _task(request: web.Request, task_id: str) -> dict[str, Any]:
    found = await _tasks(request, task_id=task_id)
    if not found:
        raise UnknownThing(f"there is no task '{task_id}'; /api/v1/tasks lists them")
    return found[0]


async def _tasks(request: web.Request, task_id: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
    database = request.app[DATABASE]
    rows = await database.fetch("tasks", {"task_id": task_id, "state": state, "most": MOST_TASKS})
    connected = {session.machine.machine_id for session in request.app[SESSIONS].all()}
    return await shown(database, rows, connected)


ROUTES = [
    web.get("/api/v1/tasks", get_tasks),
    web.post("/api/v1/tasks", start_task),
    web.get("/api/v1/tasks/{task_id}", get_task),
    web.post("/api/v1/tasks/{task_id}/stop", stop_task),
]
