"""The table of routes: what is declared is whole, and OpenAPI describes every part of it with a type."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import openapi_spec_validator
import pytest

from scope_catalogue.catalogue import streams
from scope_server.accounts.caller import Role
from scope_server.api.openapi import document
from scope_server.api.routing.route import Route
from scope_server.api.table import TABLE
from scope_server.store.schema.tables import Tables

PUBLIC = {f"/api/v1/{path}" for path in ("health", "authority", "auth/login", "auth/refresh", "auth/register")}
OWN = {f"/api/v1/{path}" for path in ("auth/logout", "auth/password", "tokens", "tokens/{id}/revoke")}
ANY_JSON = {"object", "array", "string", "number", "boolean", "null"}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The document with all streams of the catalogue."""
    return document(TABLE, list(Tables(streams().values()).values()))


def test_the_document_is_valid(described: dict[str, Any]) -> None:
    """The document is OpenAPI 3.1."""
    openapi_spec_validator.validate(described)


def test_every_value_has_a_type(described: dict[str, Any]) -> None:
    """No parameter, body or answer has an object, list or value without a type."""
    checked = 0
    for place, schema in _schemas(described, ""):
        checked += 1
        assert _is_typed(schema), (place, schema)
    assert checked > 1000


def test_every_stream_is_described(described: dict[str, Any]) -> None:
    """Each stream has its rows' columns with types and meanings."""
    for name, stream in streams().items():
        page = described["paths"][f"/api/v1/events/{name}"]["get"]["responses"]["200"]["content"]["application/json"]
        row = _found(described, _found(described, page["schema"])["properties"]["events"]["items"])
        assert {column.name for column in stream.columns} <= set(row["properties"]), name
        assert {"time", "machine_id", "hostname", "task_id"} <= set(row["required"])


@pytest.mark.parametrize("route", TABLE, ids=lambda route: route.name)
def test_a_route_is_declared_whole(route: Route) -> None:
    """Each route has a summary; a change is audited under a name of its own kind; only what must be is public,
    and viewers change only what is theirs."""
    assert re.fullmatch(r"[A-Z].{4,}", route.summary)
    assert (route.method == "POST") == bool(re.fullmatch(r"[a-z_]+\.[a-z]+", route.audited))
    assert (route.role is None) == (route.path in PUBLIC)
    assert route.method == "GET" or route.path in PUBLIC | OWN or route.role not in (None, Role.VIEWER)
    assert route.rate.per_minute > 0
    assert route.rate.burst >= 1
    assert set(route.path_model.model_fields) == set(re.findall(r"{(\w+)}", route.path))


def test_names_and_places_are_unique() -> None:
    """No two routes have one method and path, one name, or one name in the audit log."""
    for of in (
        lambda route: (route.method, route.path),
        lambda route: route.name,
        lambda route: route.audited or id(route),
    ):
        named = [of(route) for route in TABLE]
        assert len(set(named)) == len(named)


def _schemas(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All JSON Schemas in a part of an OpenAPI document."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _schemas(one, f"{place}/{number}")
    elif isinstance(value, dict):
        for key, one in value.items():
            if key == "schema":
                yield from _parts(one, f"{place}/{key}")
            elif key == "schemas":
                yield from itertools.chain.from_iterable(_parts(each, f"{place}/{name}") for name, each in one.items())
            else:
                yield from _schemas(one, f"{place}/{key}")


def _parts(schema: dict[str, Any], place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all in it."""
    yield place, schema
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _parts(schema[key], f"{place}/{key}")
    for each in schema.get("anyOf", ()):
        yield from _parts(each, f"{place}/anyOf")
    for name, each in schema.get("properties", {}).items():
        yield from _parts(each, f"{place}/{name}")


def _is_typed(schema: dict[str, Any]) -> bool:
    if any(key in schema for key in ("$ref", "anyOf", "enum", "const")):
        return True
    kind = schema.get("type")
    if isinstance(kind, list):
        return set(kind) == ANY_JSON  # said to be any, on purpose
    if kind == "object":
        values = schema.get("additionalProperties")
        return "properties" in schema or "patternProperties" in schema or isinstance(values, dict)
    return kind in ANY_JSON | {"integer"} and (kind != "array" or "items" in schema)


def _found(described: dict[str, Any], schema: dict[str, Any]) -> Any:
    return described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
