"""GET /openapi.json: the OpenAPI 3.1 description of this API, with the catalogue's columns."""

from typing import Any

import pyarrow as pa
from aiohttp import web

from scope_catalogue.shown import Latest
from scope_catalogue.where import LONGEST
from scope_server.api.certificates import LONGEST_TOKEN_S, MOST_USES, ROLES, TOKEN_S
from scope_server.api.context import TABLES
from scope_server.api.input import PID, Parameters
from scope_server.api.refusals import described_refusals, refusals
from scope_server.api.states import LONGEST_H, MOST
from scope_server.api.tasks import LONGEST_S, STATES
from scope_server.store.reading.reader import MOST_ROWS, Order
from scope_server.store.rollups.query import EVERY, MOST_GROUPS, ORDERS
from scope_server.store.schema.columns import StreamTable

_WHERE = "a filter on the columns, such as: ret < 0 and path ~ '/etc/*'"
_ORDER = "by time, or as stored: then `next` is always given, and asks for what was stored since"


async def get_openapi(request: web.Request) -> web.Response:
    """The document."""
    Parameters(request, ())
    return web.json_response(document(list(request.app[TABLES].values())))


def document(tables: list[StreamTable]) -> dict[str, Any]:
    """The OpenAPI document for these streams."""
    task = {"type": "object", "properties": {"task_id": {"type": "string", "format": "uuid"}}}
    paths = {
        "/health": {"get": _operation("Whether the server can read and write", _health(), extra=("503",))},
        "/storage": {
            "get": _operation("Storage used, and the days deleted to stay within the limits", {"type": "object"})
        },
        "/nodes": {"get": _operation("All machines", _listed("nodes"))},
        "/probes": {"get": _operation("The probes of a machine", _listed("probes", "examined"), [_query("node")])},
        "/tasks": {
            "get": _operation(
                "Tasks with their event counts", _listed("tasks"), [_query("state", {"enum": list(STATES)})]
            ),
            "post": _operation("Start a task", task, body=_definition(), created=True),
        },
        "/tasks/{task_id}": {"get": _operation("A task", task, [_path("task_id")])},
        "/tasks/{task_id}/stop": {"post": _operation("Stop a task", task, [_path("task_id")], changes=True)},
    }
    paths["/quarantine"] = {
        "get": _operation(
            "Records that could not be stored", _listed("quarantine"), [_query("limit", {"type": "integer"})]
        )
    }
    for verb, summary in (("retry", "Try again to store a record"), ("drop", "Delete a record")):
        paths[f"/quarantine/{{id}}/{verb}"] = {
            "post": _operation(summary, {"type": "object"}, [_path("id")], changes=True)
        }
    paths |= _certificates()
    for table in sorted(tables, key=lambda table: table.name):
        paths[f"/events/{table.name}"] = {"get": _events(table)}
        paths[f"/rollups/{table.name}"] = {"get": _rollup(table)}
        if table.latest:
            paths[f"/states/{table.name}"] = {"get": _states(table, table.latest)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "SCOPE", "version": "1"},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, **described_refusals()},
        "paths": paths,
    }


def _health() -> dict[str, Any]:
    said = {"type": "string", "description": "ok, or what is wrong"}
    number = {"type": "number"}
    parts = {
        "healthy": {"type": "boolean"},
        "database": said,
        "ingest": said,
        "sessions": said,
        "agents": {"type": "integer"},
        "refused_peers": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    return {"type": "object", "properties": {**parts, "waiting_bytes": number, "oldest_waiting_s": number}}


def _events(table: StreamTable) -> dict[str, Any]:
    rows = {name: _json_type(table.schema.field(name).type) for name in table.schema.names}
    rows |= {name: {"type": "string"} for name in ("time", "machine_id", "hostname", "task_id")}
    answer = {
        "type": "object",
        "properties": {
            "events": {"type": "array", "items": {"type": "object", "properties": rows}},
            "next": {"type": ["string", "null"]},
            "more": {"type": "boolean"},
            "losses": {"type": "array", "items": {"type": "object"}},
        },
    }
    bounds = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 100}
    parameters = [_query(name) for name in ("since", "until", "machine", "cursor")]
    parameters.append(_query("where", {"type": "string", "maxLength": LONGEST, "description": _WHERE}))
    parameters += [
        _query("order", {"enum": [order.value for order in Order], "description": _ORDER}),
        _query("limit", bounds),
    ]
    return _operation(f"Rows of the stream {table.name} (probe {table.probe})", answer, parameters)


def _rollup(table: StreamTable) -> dict[str, Any]:
    keys = [*table.rollup.by, "machine"]
    top = {"type": "integer", "minimum": 1, "maximum": MOST_GROUPS, "default": 10}
    parameters = [_query(name) for name in ("since", "until", "machine")]
    parameters.append(
        _query("by", {"type": "string", "description": f"columns to group by, separated by commas: {', '.join(keys)}"})
    )
    parameters += [_query("every", {"enum": list(EVERY)}), _query("order", {"enum": list(ORDERS)}), _query("top", top)]
    numbers = ("count", "failed", "sum", "mean", "p50", "p99")
    group: dict[str, Any] = {name: {"type": ["string", "null"]} for name in keys}
    group |= {name: {"type": ["number", "null"]} for name in numbers}
    group["points"] = {"type": "array", "items": {"type": "object"}}
    answer = _listed("groups")
    answer["properties"]["groups"]["items"] = {"type": "object", "properties": group}
    return _operation(f"Totals of {table.name}, per minute or longer", answer, parameters)


def _states(table: StreamTable, latest: Latest) -> dict[str, Any]:
    bounds = {"hours": LONGEST_H, "limit": MOST} | ({"pid": PID} if table.of_processes else {})
    parameters = [_query(name, {"type": "integer", "minimum": 1, "maximum": most}) for name, most in bounds.items()]
    of_process = ("pid", "start_ns") if table.of_processes else ()
    shown = (*of_process, *latest.by, *latest.totals, *latest.means)
    group = {name: {"type": "string"} for name in ("machine_id", "hostname", "time")}
    group |= {name: _json_type(table.schema.field(name).type) for name in shown}
    group |= {latest.ended: {"type": "boolean"}} if latest.ended else {}
    answer = _listed("groups")
    answer["properties"]["groups"]["items"] = {"type": "object", "properties": group}
    return _operation(f"Current states: {table.meaning}", answer, [*parameters, _query("node")])


def _operation(
    summary: str,
    answer: dict[str, Any],
    parameters: list[dict[str, Any]] | None = None,
    *,
    body: dict[str, Any] | None = None,
    created: bool = False,
    changes: bool = False,
    extra: tuple[str, ...] = (),
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "201" if created else "200": {"description": summary, "content": {"application/json": {"schema": answer}}},
            **refusals(named={parameter["name"] for parameter in parameters or ()}, changes=changes or created),
            **{status: {"description": "The parts that failed"} for status in extra},
        },
    }
    if parameters:
        described["parameters"] = parameters
    if body:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return described


def _certificates() -> dict[str, Any]:
    seconds = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_TOKEN_S, "default": TOKEN_S}
    uses = {"type": "integer", "minimum": 1, "maximum": MOST_USES, "default": 1}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    token = {"type": "object", "properties": {"valid": seconds, "uses": uses, "labels": labels}}
    role = {"enum": list(ROLES), "default": ROLES[0]}
    asked = {"name": {"type": "string"}, "role": role, "signing_request": {"type": "string", "format": "byte"}}
    person = {"type": "object", "required": ["name", "signing_request"], "properties": asked}
    listed, signed = _listed("certificates"), {"type": "object"}
    authority = {"type": "object", "properties": {"authority": {"type": "string", "description": "in PEM"}}}
    return {
        "/authority": {"get": {**_operation("The certificate of the fleet's authority", authority), "security": []}},
        "/authority/rotation": {
            "get": _operation("Which machines have the authority's next root", _listed("machines"))
        },
        **{
            f"/authority/rotation/{verb}": {"post": _operation(summary, _listed("machines"), changes=True)}
            for verb, summary in (
                ("begin", "Make the authority's next root"),
                ("finish", "End the trust in the authority's first root"),
            )
        },
        "/join-tokens": {"post": _operation("A token with which machines join", signed, body=token, created=True)},
        "/certificates": {
            "get": _operation("Certificates that have not expired", listed),
            "post": _operation("Sign the key of a person, who calls agents", signed, body=person, created=True),
        },
        "/certificates/{name}/revoke": {
            "post": _operation("Revoke a person's certificates", signed, [_path("name")], changes=True)
        },
        "/nodes/{node}/labels": {
            "post": _operation(
                "Change the labels of a machine; null deletes one",
                labels,
                [_path("node")],
                body={"type": "object", "additionalProperties": {"type": ["string", "null"]}},
                changes=True,
            )
        },
        **{
            f"/nodes/{{node}}/{verb}": {"post": _operation(summary, signed, [_path("node")], changes=True)}
            for verb, summary in (
                ("remove", "End a machine's membership; it may join again"),
                ("revoke", "End a machine's membership for good"),
                ("confirm", "Accept a machine of whose joining a restored database does not know"),
            )
        },
    }


def _definition() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["probe"],
        "additionalProperties": False,
        "properties": {
            "node": {"type": "string"},
            "probe": {"type": "string"},
            "target": {"type": "object"},
            "options": {"type": "object"},
            "duration": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": LONGEST_S,
                "description": "seconds from the task's first start; without it, until the task is stopped",
            },
        },
    }


def _listed(name: str, *times: str) -> dict[str, Any]:
    properties: dict[str, Any] = {name: {"type": "array", "items": {"type": "object"}}}
    properties |= {time: {"type": ["string", "null"], "format": "date-time"} for time in times}
    return {"type": "object", "properties": properties}


def _query(name: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema or {"type": "string"}}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _json_type(type_: pa.DataType) -> dict[str, Any]:
    if pa.types.is_integer(type_):
        return {"type": ["integer", "null"]}
    if pa.types.is_floating(type_):
        return {"type": ["number", "null"]}
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        return {"type": ["array", "null"], "items": _json_type(type_.value_type)}
    return {"type": ["string", "null"]}


ROUTES = [web.get("/api/v1/openapi.json", get_openapi)]
