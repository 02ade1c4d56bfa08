"""Tasks: GET and POST /tasks, GET /tasks/ID, POST /tasks/ID/stop."""

import json
from typing import Any
from uuid import UUID

from aiohttp import web
from google.protobuf import json_format

from scope_bpf.catalogue import probe_named
from scope_bpf.errors import ScopeBpfError
from scope_bpf.options import parse_options
from scope_proto.scope.v1 import control_pb2
from scope_server.api.context import AGENTS, DATABASE
from scope_server.api.nodes import find_machine, plain
from scope_server.errors import InvalidQuery, UnknownThing

MOST_TASKS = 1000
STATES = ("pending", "starting", "running", "stopping", "stopped", "failed", "active")
_FIELDS = ("node", "probe", "target", "options", "duration")


async def get_tasks(request: web.Request) -> web.Response:
    """Tasks, newest first; `state` takes those in a state, or all that have not ended (`active`)."""
    state = request.query.get("state")
    if state is not None and state not in STATES:
        raise InvalidQuery(f"state: '{state}' is not one of {', '.join(STATES)}")
    return web.json_response({"tasks": await _tasks(request, state=state)})


async def get_task(request: web.Request) -> web.Response:
    """One task."""
    return web.json_response(await _task(request))


async def start_task(request: web.Request) -> web.Response:
    """Starts a task and answers when it records."""
    body = await _body(request)
    unknown = sorted(set(body) - set(_FIELDS))
    if unknown:
        raise InvalidQuery(f"'{unknown[0]}' is no field of a task; there are: {', '.join(_FIELDS)}")
    wanted = _definition(body)
    agents = request.app[AGENTS]
    agent = agents.of(await find_machine(request, str(body.get("node", ""))))
    task_id = await agents.start(agent, wanted)
    (task,) = await _tasks(request, task_id=task_id)
    return web.json_response(task, status=201)


async def stop_task(request: web.Request) -> web.Response:
    """Stops a task and answers when it has ended; what it recorded until then is kept."""
    task = await _task(request)
    if task["state"] not in ("stopped", "failed"):
        await request.app[AGENTS].stop(task["node"], task["task_id"])
    elif task["desired"] == "running":  # it ended with its agent, and would go on with it
        await request.app[DATABASE].run("stop_task", {"task_id": task["task_id"]})
    return web.json_response(await _task(request))


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except json.JSONDecodeError as error:
        raise InvalidQuery(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise InvalidQuery("the body must be a JSON object")
    return body


def _definition(body: dict[str, Any]) -> control_pb2.StartTaskRequest:
    wanted = control_pb2.StartTaskRequest(probe=str(body.get("probe", "")))
    try:
        json_format.ParseDict(body.get("target") or {}, wanted.target)
        json_format.ParseDict(body.get("options") or {}, wanted.options)
        options = body.get("options") or {}
        parse_options(probe_named(wanted.probe).options, options)
        if body.get("duration") is not None:
            wanted.duration.FromNanoseconds(int(float(body["duration"]) * 1e9))
    except (json_format.ParseError, ScopeBpfError, TypeError, ValueError, AttributeError) as error:
        raise InvalidQuery(str(error)) from None
    return wanted


async def _task(request: web.Request) -> dict[str, Any]:
    given = request.match_info["task_id"]
    try:
        found = await _tasks(request, task_id=str(UUID(given)))
    except ValueError:
        found = []
    if not found:
        raise UnknownThing(f"there is no task '{given}'; /api/v1/tasks lists them")
    return found[0]


async def _tasks(request: web.Request, task_id: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
    database = request.app[DATABASE]
    wanted = {"task_id": task_id, "machines": None, "state": state, "limit": MOST_TASKS}
    rows = await database.fetch("tasks", wanted)
    ids = {"task_ids": [row["task_id"] for row in rows]}
    streams: dict[str, list[dict[str, Any]]] = {}
    for books in await database.fetch("books", ids):
        streams.setdefault(books.pop("task_id"), []).append({**books, "lost": []})
    for loss in await database.fetch("losses", ids):
        for stream in streams.get(loss.pop("task_id"), []):
            if stream["stream"] == loss["stream"]:
                stream["lost"].append({name: loss[name] for name in ("place", "reason", "count")})
    tasks = []
    for row in rows:
        definition = row.pop("definition")
        described = {name: definition.get(name) for name in ("target", "options", "duration")}
        tasks.append({**plain(row), **described, "streams": streams.get(row["task_id"], [])})
    return tasks


ROUTES = [
    web.get("/api/v1/tasks", get_tasks),
    web.post("/api/v1/tasks", start_task),
    web.get("/api/v1/tasks/{task_id}", get_task),
    web.post("/api/v1/tasks/{task_id}/stop", stop_task),
]
