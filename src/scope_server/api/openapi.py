"""The OpenAPI 3.1 document, made from routes. With streams, it has a path and types for each; without, `{stream}`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from scope_server.accounts.caller import Role
from scope_server.api.routing.headers import AGE
from scope_server.api.routing.models import Nothing, Text
from scope_server.api.routing.problems import MEDIA as PROBLEM
from scope_server.api.routing.problems import Problem
from scope_server.api.routing.route import Route, never
from scope_server.api.routing.tables import TableQuery
from scope_server.store.schema.columns import StreamTable
from scope_views.files import MEDIA

_REFS = "#/components/schemas/{model}"
_REFUSALS = {
    400: ("BadRequest", "A parameter or field is missing, unknown, given twice or not valid"),
    401: ("Unauthorized", "The request does not show who sends it"),
    403: ("Forbidden", "The caller's role does not allow this"),
    404: ("NotFound", "Nothing has the name or id that is given"),
    409: ("Conflict", "What is named does not allow this, or not on this server"),
    413: ("TooLarge", "The body is too large"),
    415: ("Unsupported", "The body is compressed; send plain JSON"),
    429: ("TooManyRequests", "The caller calls too often; Retry-After says when it may again"),
    500: ("InternalError", "The server failed; its log says why"),
    503: ("Unavailable", "The database or the agent does not answer, or a table is locked; try again"),
    504: ("TooSlow", "The query takes too long; narrow it with since, until or where"),
}
# Parameters of queries and fields of bodies that may name nothing.
_BY_NAME = {"machine", "node", "nodes", "selector", "stream", "task", "template"}

_AGE = (
    "How old the rows may be, in seconds: 0, unless a replica of the database answered. "
    "A request with `Cache-Control: no-cache` is never answered by a replica."
)

Model = tuple[type[BaseModel], Literal["validation", "serialization"]]


@dataclass(frozen=True)
class Operation:
    """A route as it is described: for one stream, if it has one in its path."""

    route: Route
    path: str
    name: str
    summary: str
    query: type[BaseModel]
    answer: type[BaseModel]

    def models(self) -> Iterator[Model]:
        """The models that it needs."""
        yield from ((model, "validation") for model in (self.route.path_model, self.query, self.route.body))
        if not issubclass(self.answer, Text):
            yield self.answer, "serialization"


def operations(routes: Iterable[Route], tables: Sequence[StreamTable] = ()) -> Iterator[Operation]:
    """Routes as they are described, those with a stream in their path once for each of the streams, if any."""
    for route in routes:
        whole = Operation(route, route.path, route.name, route.summary, route.query, route.answer)
        if not route.of_stream or not tables:
            yield whole
            continue
        for table in sorted(tables, key=lambda table: table.name):
            if found := route.of_stream(table):
                path, name = route.path.replace("{stream}", table.name), f"{route.name}_{table.name}"
                yield replace(
                    whole, path=path, name=name, summary=found.summary, query=found.query, answer=found.answer
                )


def document(routes: Iterable[Route], tables: Sequence[StreamTable] = ()) -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    described = list(operations(routes, tables))
    models: dict[Model, None] = {(Problem, "serialization"): None}
    for operation in described:
        models |= dict.fromkeys(operation.models())
    refs, schemas = models_json_schema(list(models), ref_template=_REFS, schema_generator=_Schemas)
    definitions: dict[str, Any] = schemas["$defs"]
    schema = _Resolved({model: refs[model]["$ref"].rpartition("/")[2] for model in models}, definitions)
    paths: dict[str, dict[str, Any]] = {}
    for operation in described:
        paths.setdefault(operation.path, {})[operation.route.method.lower()] = _described(operation, schema)
    inlined = {schema.names[model] for model in models if model[1] == "validation" and _is_inlined(model[0], described)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "SCOPE", "version": "1"},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {name: found for name, found in sorted(definitions.items()) if name not in inlined},
            "responses": {
                name: {"description": meaning, "content": {PROBLEM: {"schema": schema.ref(Problem)}}}
                for name, meaning in _REFUSALS.values()
            },
        },
        "paths": paths,
    }


class Described:
    """The document of an application, made anew if there are other streams. For any thread."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._made: tuple[list[str], dict[str, Any]] = [], {}
        self._lock = Lock()

    def document(self, tables: Sequence[StreamTable]) -> dict[str, Any]:
        """The document for these streams. The first time takes a second."""
        streams = [table.fingerprint for table in tables]
        with self._lock:
            if self._made[0] != streams or not self._made[1]:
                self._made = streams, document(self._routes, tables)
            return self._made[1]


class _Schemas(GenerateJsonSchema):
    """Without titles of fields: they say the same as the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Of names with a pattern: others are refused, which `patternProperties` alone does not say."""
        found = super().dict_schema(schema)
        for pattern, values in found.pop("patternProperties", {}).items():
            found |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
        return found


@dataclass(frozen=True)
class _Resolved:
    names: dict[Model, str]
    definitions: dict[str, Any]

    def ref(self, model: type[BaseModel]) -> dict[str, Any]:
        return {"$ref": _REFS.format(model=self.names[model, "serialization"])}

    def body(self, model: type[BaseModel]) -> dict[str, Any]:
        return {"$ref": _REFS.format(model=self.names[model, "validation"])}

    def parameters(self, model: type[BaseModel], place: str) -> Iterator[dict[str, Any]]:
        found = self.definitions[self.names[model, "validation"]]
        for name, schema in found.get("properties", {}).items():
            given = _without_null(schema)
            described = {"description": given.pop("description")} if "description" in given else {}
            required = place == "path" or name in found.get("required", ())
            yield {"name": name, "in": place, "required": required, **described, "schema": given}


def _is_inlined(model: type[BaseModel], described: Iterable[Operation]) -> bool:
    return model is Nothing or not any(operation.route.body is model for operation in described)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter: one that is left out is not null."""
    rest = {key: value for key, value in schema.items() if (key, value) != ("default", None)}
    kinds = [kind for kind in rest.pop("anyOf", ()) if kind != {"type": "null"}]
    return {**rest, **kinds[0]} if len(kinds) == 1 else rest | ({"anyOf": kinds} if kinds else {})


def _described(operation: Operation, schema: _Resolved) -> dict[str, Any]:
    route = operation.route
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{route.meaning} Needs {_needed(route)}.",
        "responses": {str(route.status): _answer(operation, schema), **_refusals(operation)},
        "x-role": route.needs,
    }
    path = [one for one in schema.parameters(route.path_model, "path") if f"{{{one['name']}}}" in operation.path]
    if parameters := [*path, *schema.parameters(operation.query, "query")]:
        described["parameters"] = parameters
    if route.body is not Nothing:
        needed = bool(schema.definitions[schema.names[route.body, "validation"]].get("required"))
        content = {"application/json": {"schema": schema.body(route.body)}}
        described["requestBody"] = {"required": needed, "content": content}
    if route.role is None:
        described["security"] = []
    return described


def _needed(route: Route) -> str:
    return f"the role {route.role}" if route.role else "no login"


def _answer(operation: Operation, schema: _Resolved) -> dict[str, Any]:
    if issubclass(operation.answer, Text):
        content = {media: {"schema": {"type": "string"}} for media in operation.answer.MEDIA}
    else:
        content = {"application/json": {"schema": schema.ref(operation.answer)}}
        if issubclass(operation.query, TableQuery):
            content |= {media: {"schema": {"type": "string"}} for media in MEDIA.values()}
    described: dict[str, Any] = {"description": operation.summary, "content": content}
    if operation.route.lags is not never:
        described["headers"] = {AGE: {"description": _AGE, "schema": {"type": "number"}}}
    return described


def _refusals(operation: Operation) -> dict[str, Any]:
    route = operation.route
    statuses = {400, 429, 500, 503}
    changes = route.method == "POST"
    if route.role and not changes:
        statuses |= {504}
    if route.role or changes:  # who logs in is not known, either
        statuses |= {401}
    if changes or route.role not in (None, Role.VIEWER):
        statuses |= {403}
    names = operation.query.model_fields.keys() | route.body.model_fields.keys()
    if "{" in route.path or names & _BY_NAME:
        statuses |= {404}
    if changes:
        statuses |= {409, 413, 415}
    return {str(status): {"$ref": f"#/components/responses/{_REFUSALS[status][0]}"} for status in sorted(statuses)}
